"""Settings of a pool and its datasets: which differ from what the site wants, and the commands that set them. Pure."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Sequence, Tuple

SERIALS = "firstlight:drives"  # a property of ours on the pool's root: by-id names and serials of its drives
_UNITS = " KMGTP"
_NONE_IS_0 = ("quota", "refquota", "reservation", "refreservation")
_DATASET = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_.:-]*(/[A-Za-z0-9][A-Za-z0-9_.:-]*)*\Z")

Values = Mapping[str, str]


def text_of(value: Any) -> str:
    """A value of a YAML file as ZFS spells it: true is on."""
    if isinstance(value, bool) or str(value) in ("True", "False"):
        return "on" if str(value) == "True" else "off"
    return str(value)


def same(key: str, wanted: str, current: str) -> bool:
    """Whether two spellings mean the same: ZFS prints 1M as 1048576, a quota of none as 0."""
    return _plain(key, wanted) == _plain(key, current)


def _plain(key: str, value: str) -> str:
    if key in _NONE_IS_0 and value == "none":
        return "0"
    match = re.fullmatch(r"([0-9]{1,18}(?:\.[0-9]{1,6})?)([KMGTP]?)(?:i?B)?", value, re.IGNORECASE)
    if not match or not match.group(2):
        return value
    return str(int(float(match.group(1)) * 1024 ** _UNITS.index(match.group(2).upper())))


def read_properties(text: str) -> Dict[str, Dict[str, str]]:
    """``zfs get -H -p -o name,property,value`` (or zpool's): by name its properties."""
    found: Dict[str, Dict[str, str]] = {}
    for line in text.splitlines():
        words = line.split("\t")
        if len(words) == 3:
            found.setdefault(words[0], {})[words[1]] = words[2]
    return found


def read_serials(value: str) -> Dict[str, str]:
    """The property SERIALS: ``NAME=SERIAL NAME=SERIAL``."""
    pairs = [item.partition("=") for item in value.split()]
    return {name: serial for name, mark, serial in pairs if mark and name and serial}


def write_serials(serials: Values) -> str:
    return " ".join(f"{name}={re.sub(r'[^A-Za-z0-9_.:-]', '_', serials[name])}" for name in sorted(serials))


def check_datasets(datasets: Sequence[Mapping[str, Any]]) -> List[Tuple[str, Dict[str, str]]]:
    """(name below the pool, properties) of each, parents first; ValueError says which name is none."""
    rows = []
    for row in datasets:
        name = str(row.get("name", ""))
        if not _DATASET.match(name) or len(name) > 200:
            raise ValueError(f"{name!r} is no name of a dataset such as scratch or data/images, without the pool's")
        rows.append((name, {str(k): text_of(v) for k, v in (row.get("properties") or {}).items()}))
    names = [name for name, _ in rows]
    if len(set(names)) != len(names):
        raise ValueError(f"{next(n for n in names if names.count(n) > 1)!r} is there twice")
    return sorted(rows)


def set_commands(
    pool: str,
    pool_wanted: Values,
    root_wanted: Values,
    datasets: Sequence[Tuple[str, Values]],
    pool_now: Values,
    now: Mapping[str, Values],
) -> List[List[str]]:
    """What makes settings as wanted. now: by full name of each dataset that is there its properties."""
    commands = [
        ["zpool", "set", f"{key}={pool_wanted[key]}", pool]
        for key in sorted(pool_wanted)
        if not same(key, pool_wanted[key], pool_now.get(key, ""))
    ]
    for name, wanted in [(pool, root_wanted), *((f"{pool}/{short}", values) for short, values in datasets)]:
        if name in now:
            differing = [k for k in sorted(wanted) if not same(k, wanted[k], now[name].get(k, ""))]
            if differing:
                commands.append(["zfs", "set", *(f"{k}={wanted[k]}" for k in differing), name])
        else:
            options = [word for k in sorted(wanted) for word in ("-o", f"{k}={wanted[k]}")]
            commands.append(["zfs", "create", "-p", *options, name])
    return commands
