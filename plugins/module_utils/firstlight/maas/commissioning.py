"""Our commissioning script: uploads it to MAAS, and reads what it saw of a machine's disks and clock.

MAAS runs commissioning.sh in its ephemeral environment, before anything is written: what it prints is how the disks
were before the installation, which is proven against it afterwards (module install_proof).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

from ..clocks import LIMIT_SECONDS, Reading, between, difference, judge_host
from ..findings import Finding, shorten
from .client import MaasClient, MaasError
from .machines import Machine
from .options import Commissioned, Wanted

SCRIPT = "firstlight-disks"
SCRIPT_SECONDS = 600  # for a machine whose drives are dying
HEAD_BYTES = 1024 * 1024
BLANK = hashlib.sha256(bytes(HEAD_BYTES)).hexdigest()

MAX_OUTPUT = 256 * 1024
MAX_DISKS = 256
_COMMISSIONING, _INSTALLATION = 0, 1  # MAAS's result types
_PASSED = 2  # MAAS's status of a script that ended with exit status 0


@dataclass(frozen=True)
class Fingerprint:
    """One disk as it was. size: bytes. sha256: of its first MiB, empty where it could not be read."""

    name: str
    serial: str
    size: int
    sha256: str = ""
    blank: bool = False
    wwid: str = ""
    model: str = ""


@dataclass(frozen=True)
class Results:
    """What one run of the script told. clock: the host's, in seconds since 1970, None where it did not come to that.

    started, ended: MAAS's clock when the script began and had ended.
    """

    disks: tuple[Fingerprint, ...]
    clock: float | None = None
    started: float | None = None
    ended: float | None = None

    def by_serial(self) -> dict[str, dict[str, Any]]:
        """The disks as plain values by serial; ``#2`` and so on follow a serial that several have."""
        found: dict[str, dict[str, Any]] = {}
        for disk in self.disks:
            key, number = disk.serial, 1
            while key in found:
                number += 1
                key = f"{disk.serial}#{number}"
            found[key] = asdict(disk)
        return found


def script_text() -> str:
    return (Path(__file__).parent / "commissioning.sh").read_text(encoding="ascii")


def ensure_script(client: MaasClient) -> bool:
    """See that MAAS has our script as it is now; True when it had to be uploaded. One read where it has."""
    text = script_text()
    stored = client.script(SCRIPT)
    if stored is not None and _latest_text(stored) == text:
        return False
    client.upload_script(
        SCRIPT,
        text,
        is_new=stored is None,
        title="Firstlight: disks as they are before the installation",
        description="Reads the first MiB of each disk and the clock; writes nothing.",
        type="commissioning",
        hardware_type="node",
        parallel=0,  # by itself: a disk that another script works on would change meanwhile
        timeout=SCRIPT_SECONDS,
        destructive=False,
        tags="firstlight",
        comment=f"firstlight, sha256 {hashlib.sha256(text.encode()).hexdigest()[:12]}",
    )
    return True


def _latest_text(stored: Mapping[str, Any]) -> str | None:
    history = stored.get("history")
    versions = [v for v in history if isinstance(v, dict)] if isinstance(history, list) else []
    latest = max(versions, key=lambda v: v["id"] if isinstance(v.get("id"), int) else -1, default={})
    return _decoded(latest.get("data"))


def read_results(client: MaasClient, system_id: str, installations: int = 0) -> Results | None:
    """What the script saw at the machine's last commissioning; None when it did not run, or not to its end.

    Also None when the machine was deployed more than ``installations`` times since: its disks are then no longer as
    they were seen.
    """
    return latest_results(client.script_results(system_id, SCRIPT), installations)


def latest_results(runs: list[dict[str, Any]], installations: int = 0) -> Results | None:
    """The same of what MAAS answered: a list of runs of scripts, whose ids grow."""
    known = sorted((r for r in runs if isinstance(r.get("id"), int)), key=lambda r: r["id"], reverse=True)
    since = 0
    for run in known:
        since += run.get("type") == _INSTALLATION
        if run.get("type") != _COMMISSIONING:
            continue
        results = run.get("results")
        ours = [r for r in results if isinstance(r, dict)] if isinstance(results, list) else []
        ours = [r for r in ours if r.get("name") == SCRIPT]
        if not ours or ours[-1].get("status") != _PASSED or since > installations:
            return None  # an older run would tell of other disks
        text = _decoded(ours[-1].get("stdout")) or _decoded(ours[-1].get("output"))
        return parse(text or "", _moment(ours[-1].get("started")), _moment(ours[-1].get("ended")))
    return None


def parse(text: str, started: float | None = None, ended: float | None = None) -> Results | None:
    """The script's output; None when it is not that, or was cut off."""
    lines = text[:MAX_OUTPUT].split("\n")
    if lines[0] != "firstlight-disks\t1":
        return None
    disks: list[Fingerprint] = []
    clock = None
    for line in lines[1:]:
        fields = line.split("\t")
        if fields[0] == "disk" and len(fields) == 8 and len(disks) < MAX_DISKS:
            _, name, size, sha256, _, serial, wwid, model = fields
            if not re.fullmatch(r"[A-Za-z0-9!._-]{1,64}", name) or not re.fullmatch(r"[0-9]{1,20}", size):
                return None
            if not re.fullmatch(r"[0-9a-f]{64}", sha256):
                sha256 = ""
            serial, wwid, model = (shorten(value, 128) for value in (serial, wwid, model))
            disks.append(Fingerprint(name, serial, int(size), sha256, sha256 == BLANK, wwid, model))
        elif fields[0] == "clock" and len(fields) == 2 and re.fullmatch(r"[0-9]{1,12}", fields[1]):
            clock = float(fields[1])
        elif line:
            return None
    return Results(tuple(disks), clock, started, ended) if clock is not None else None


def commissioned(
    client: MaasClient,
    wanted: Wanted,
    machine: Machine,
    limit: float = LIMIT_SECONDS,
    bmc_skew: float | None = None,
) -> Commissioned | None:
    """For the engine: the disks of a Ready machine as they were, and what its clock said. limit: of skew, seconds.

    bmc_skew: how far its BMC's clock is ahead of the controller's. A MAAS that does not answer this is no reason not
    to install: the proof then knows less.
    """
    try:
        results = read_results(client, wanted.system_id)
    except MaasError:
        return None
    if results is None:
        return None
    return Commissioned(results.by_serial(), tuple(judge_clock(results, client.clock, limit, bmc_skew)))


def disks_before(client: MaasClient, system_id: str) -> dict[str, dict[str, Any]]:
    """Of a deployed machine the disks as they were before its deployment; nothing where that is not known."""
    try:
        results = read_results(client, system_id, installations=1)
    except MaasError:
        return {}
    return results.by_serial() if results else {}


def judge_clock(results: Results, maas: Reading | None, limit: float, bmc_skew: float | None = None) -> list[Finding]:
    """The host's clock at commissioning against MAAS's, which began and ended the script."""
    if results.clock is None or results.started is None or results.ended is None:
        return []
    maas = maas or Reading("MAAS's clock", 0.0)
    # The times of a script are whole seconds, and only as near as its request was.
    host = between(results.started - 1, results.ended + 1, results.clock, "host", maas.skew)
    found = judge_host(host, [Reading(maas.clock, maas.skew)], limit, " at commissioning")
    if not found or bmc_skew is None:
        return found
    bmc = difference(Reading("its BMC's clock", bmc_skew), maas)
    return [replace(f, evidence=f"{f.evidence}; its BMC's clock, with which it starts, is {bmc}") for f in found]


def _decoded(value: Any) -> str | None:
    """Text that MAAS gives in base64; None when it is none, or too much."""
    if not isinstance(value, str) or len(value) > MAX_OUTPUT * 2:
        return None
    try:
        return base64.b64decode(value, validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return None


def _moment(value: Any) -> float | None:
    """Seconds since 1970 of a time as MAAS writes it in script results: an RFC 5322 date."""
    try:
        return parsedate_to_datetime(str(value)).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
