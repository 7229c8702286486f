"""What a site says of its checks: expectations, checks that are switched off or must be readable. Pure but ``load``."""

from __future__ import annotations

import datetime
import json
import re
from dataclasses import dataclass, field
from typing import Any, Dict, Iterable, List, Mapping, Tuple

from ..checks import ALL_CHECKS, Skip
from ..checks.kernel_log_site import read_site
from ..findings import shorten
from ..profile import Profile

BYTES_MAX = 1024 * 1024
KEYS = ("expect", "skip", "require")
# what expect may hold: by name the kinds of its value, and how an error calls them
EXPECT: Dict[str, Tuple[Tuple[type, ...], str]] = {
    "ntp_servers": ((list,), "a list"),
    "clock": ((bool,), "true or false"),
    "docker": ((bool,), "true or false"),
    "docker_gpu": ((str,), "text"),
    "containers": ((list,), "a list"),
    "exporters": ((dict,), "a mapping"),
    "zfs_pool": ((dict,), "a mapping"),
    "acs_in_virtual_machines": ((bool,), "true or false"),
    "gpu_driver": ((str,), "text"),
    "gpu_vbios": ((str,), "text"),
    "gpu_rdma": ((str,), "text"),
    "gpu_processes": ((list,), "a list"),
    "hca_firmware": ((str,), "text"),
    "hca_counters": ((dict,), "a mapping"),
    "nvlink_counters": ((dict,), "a mapping"),
    "kernel_log": ((dict,), "a mapping"),
    "reboot_due": ((bool,), "true or false"),
    "dcgm_diag_level": ((int,), "1, 2 or 3"),
    "versions": ((dict,), "a mapping"),
}
VERSIONS = ("gpu_driver", "gpu_vbios", "hca_firmware")  # what versions may say


@dataclass(frozen=True)
class Settings:
    """expect: beyond the profile. skips: checks that are switched off. require: those that must be readable too."""

    expect: Dict[str, Any] = field(default_factory=dict)
    skips: List[Skip] = field(default_factory=list)
    require: List[str] = field(default_factory=list)


def read_settings(data: Any) -> Settings:
    """A mapping with expect, skip and require, none of them needed; ValueError says in one line what is wrong."""
    if not isinstance(data, dict):
        raise ValueError(f"settings are a mapping, not {type(data).__name__}")
    for name in data:
        if name not in KEYS:
            raise ValueError(f"unknown key {str(name)[:60]!r}; known are {', '.join(KEYS)}")
    require = data.get("require") or []
    if not isinstance(require, list):
        raise ValueError(f"require: must be a list of checks, not {type(require).__name__}")
    for name in require:
        known_check("require", name)
    return Settings(read_expect(data.get("expect") or {}), read_skips(data.get("skip") or []), require)


def read_skips(rows: Any) -> List[Skip]:
    """Rows of check, reason and until as Skips; ValueError names the row and what is wrong with it."""
    if not isinstance(rows, list):
        raise ValueError(f"skip: must be a list, not {type(rows).__name__}")
    skips = []
    for number, row in enumerate(rows):
        if not isinstance(row, dict) or set(row) != {"check", "reason", "until"}:
            raise ValueError(f"skip[{number}]: must have check, reason and until")
        known_check(f"skip[{number}].check", row["check"])
        if not str(row["reason"]).strip():
            raise ValueError(f"skip[{number}].reason: say why {row['check']} is switched off")
        try:
            if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", str(row["until"])):
                raise ValueError
            until = datetime.date.fromisoformat(str(row["until"]))
        except ValueError:
            raise ValueError(f"skip[{number}].until: {row['until']!r} is no date such as 2027-08-06") from None
        skips.append(Skip(row["check"], str(row["reason"]), until))
    return skips


def known_check(where: str, name: Any) -> None:
    """ValueError unless there is a check of this name."""
    names = [check.name for check in ALL_CHECKS]
    if name not in names:
        raise ValueError(f"{where}: {str(name)[:60]!r} is no check; there are {', '.join(names)}")


def read_expect(expect: Any) -> Dict[str, Any]:
    """Expectations, their kinds, ports and kernel_log checked; ValueError names what is wrong. None is not given."""
    if not isinstance(expect, dict):
        raise ValueError(f"expect: must be a mapping, not {type(expect).__name__}")
    given = {name: value for name, value in expect.items() if value is not None}
    for name, value in given.items():
        if name not in EXPECT:
            raise ValueError(f"expect: unknown key {str(name)[:60]!r}; known are {', '.join(EXPECT)}")
        kinds, what = EXPECT[name]
        if not isinstance(value, kinds):
            raise ValueError(f"expect.{name}: must be {what}, not {type(value).__name__}")
    for name, port in given.get("exporters", {}).items():
        if isinstance(port, bool) or not re.fullmatch(r"[0-9]{1,5}", str(port)) or not 1 <= int(port) <= 65535:
            raise ValueError(f"expect.exporters.{shorten(name, 60)}: {port!r} is no port from 1 to 65535")
    level = given.get("dcgm_diag_level", 1)
    if isinstance(level, bool) or level not in (1, 2, 3):
        raise ValueError(f"expect.dcgm_diag_level: must be 1, 2 or 3, not {level!r}")
    read_site(given)  # kernel_log
    _check_versions(given.get("versions", {}))
    return given


def of_system(expect: Mapping[str, Any], system: Mapping[str, Any]) -> Dict[str, Any]:
    """The same without ``versions``, and with what it says of a host that runs this system.

    versions: distribution ("debian-12") to architecture to expectations, "any" for all that are not named. system:
    distribution, version, architecture, as ``facts_here`` has them. What expect says itself goes before.
    """
    versions = expect.get("versions") or {}
    others = versions.get("any") or {}
    of_distribution = versions.get("{distribution}-{version}".format(**system)) or others
    picked = of_distribution.get(system["architecture"]) or of_distribution.get("any") or {}
    return {**picked, **{name: value for name, value in expect.items() if name != "versions"}}


def _check_versions(versions: Mapping[str, Any]) -> None:
    for distribution, architectures in versions.items():
        where = f"expect.versions.{shorten(distribution, 40)}"
        if not isinstance(architectures, dict):
            raise ValueError(f"{where}: must be a mapping, not {type(architectures).__name__}")
        for architecture, wanted in architectures.items():
            where_too = f"{where}.{shorten(architecture, 40)}"
            if not isinstance(wanted, dict) or not all(isinstance(value, str) for value in wanted.values()):
                raise ValueError(f"{where_too}: must be a mapping of texts")
            for name in wanted:
                if name not in VERSIONS:
                    raise ValueError(f"{where_too}: unknown key {str(name)[:60]!r}; known are {', '.join(VERSIONS)}")


def in_use(expect: Mapping[str, Any]) -> Dict[str, Any]:
    """The same for a host on which a job may run: its processes on GPUs are not held against it."""
    return {**expect, "gpu_processes": ["*"]}


def load(path: str) -> Any:
    """What a JSON file holds; ValueError with one line that begins with its name."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - a text, as it came from the command line
            content = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    if len(content) > BYTES_MAX:
        raise ValueError(f"{path}: has more than {BYTES_MAX} bytes")
    try:
        return json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: no JSON: {str(error)[:120]}") from None


def load_profile(path: str) -> Profile:
    try:
        return Profile.from_dict(load(path))
    except ValueError as error:
        said = str(error)
        raise ValueError(said if said.startswith(path) else f"{path}: {said}") from None


def load_settings(paths: Iterable[str]) -> Settings:
    """Of several files; a later one's expectations go before those of the earlier ones, skips and require add up."""
    together = Settings()
    for path in paths:
        try:
            more = read_settings(load(path))
        except ValueError as error:
            said = str(error)
            raise ValueError(said if said.startswith(path) else f"{path}: {said}") from None
        together = Settings(
            {**together.expect, **more.expect}, [*together.skips, *more.skips], [*together.require, *more.require]
        )
    return together
