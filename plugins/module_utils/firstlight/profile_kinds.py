"""What kind of value each key of a profile has; of hosts too, where no schema has looked at the file.

Standard library only. Keys of parts that are not named here are left to ``sitefiles`` and its schema.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, Tuple

from .findings import shorten

# how an error calls what it must be, and whether it is
Kind = Tuple[str, Callable[[Any], bool]]

OS_DISK_BUSES = ("nvme", "sata", "sas", "virtio", "usb")


def is_whole(value: Any, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value and abs(value) < 1e30


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _one_of(*words: str) -> Kind:
    said = f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]
    return said, lambda value: isinstance(value, str) and value in words


def _mapping(key: Kind, value: Kind) -> Kind:
    def holds(given: Any) -> bool:
        return isinstance(given, dict) and all(key[1](k) and value[1](v) for k, v in given.items())

    return f"a mapping of {key[0]} to {value[0]}", holds


def _list_of(what: str) -> Kind:
    return f"a list of {what}", lambda value: isinstance(value, list) and all(map(_is_text, value))


_TEXT: Kind = ("text", _is_text)
_SWITCH: Kind = ("true or false", lambda value: isinstance(value, bool))
_WORD: Kind = (
    "a word as the kernel spells it, such as performance",
    lambda value: _is_text(value) and bool(re.fullmatch(r"[a-z_]{1,32}", value)),
)
_VALUE: Kind = ("text or a whole number", lambda value: _is_text(value) or is_whole(value, -(2**63), 2**64))
_COUNT: Kind = ("a whole number, 0 or more", lambda value: is_whole(value, 0, 2**63))
_PAGES: Kind = ("a size in kB, such as 2048,", lambda key: bool(re.fullmatch(r"[1-9][0-9]{0,9}", str(key))))
_SYSCTL: Kind = (
    "a key such as vm.max_map_count",
    lambda key: _is_text(key) and bool(re.fullmatch(r"[A-Za-z0-9_]+([./][A-Za-z0-9_*-]+)+", key)),
)
_LIMIT: Kind = (
    "a whole number or unlimited",
    lambda value: value == "unlimited" or is_whole(value, 0, 2**63),
)
_ENABLED = _one_of("enabled", "disabled")

# by key of the profile and key below it
KINDS: Dict[str, Dict[str, Kind]] = {
    "gpus": {
        "model": _TEXT,
        "driver_required": _SWITCH,
        "kernel_module": _one_of("open", "proprietary"),
        "nvswitch": _SWITCH,
        "rdma": _one_of("peermem", "dmabuf", "both"),
        "ecc": _SWITCH,
    },
    "hcas": {"cabled": _list_of("names such as mlx5_0 or mlx5_0/1")},
    "ethernet": {"pxe": _TEXT, "cabled": _list_of("ids")},
    "os_disk": {
        "controller": _TEXT,
        "model": _TEXT,
        "serial": _TEXT,
        "bus": _one_of(*OS_DISK_BUSES),
        "exclude_data_drives": _SWITCH,
    },
    "tuning": {
        "pcie_acs": _one_of("disabled"),
        "cpu_governor": _WORD,
        "cpu_energy_preference": _WORD,
        "hugepages": _mapping(_PAGES, _COUNT),
        "transparent_hugepages": _one_of("always", "madvise", "never"),
        "numa_balancing": _ENABLED,
        "swap": _ENABLED,
        "sysctl": _mapping(_SYSCTL, _VALUE),
        "limits": _mapping(_one_of("nofile", "memlock"), _LIMIT),
    },
    "reboot": {"services": _list_of("units")},
}
_OF_PARTS: Dict[str, Kind] = {"slots": _list_of("ids")}
_PCIE: Dict[str, Kind] = {
    "lanes": ("a whole number from 1 to 32", lambda value: is_whole(value, 1, 32)),
    "generation": ("a whole number from 1 to 9", lambda value: is_whole(value, 1, 9)),
}
PARTS = ("gpus", "hcas", "ethernet", "nvme", "psus", "fans", "dimms")
_EVERY: Dict[str, Kind] = {"firmware": ('a version in quotes such as "2.5.4"', _is_text), "bios": _VALUE}


def check_kinds(key: str, value: Dict[Any, Any]) -> None:
    """ValueError with one line where a value below this key of a profile is of a wrong kind."""
    kinds = {**(_OF_PARTS if key in PARTS else {}), **KINDS.get(key, {})}
    for name, given in value.items():
        kind = _EVERY.get(key) or (kinds.get(name) if isinstance(name, str) else None)
        # roles hand over '' for what the site leaves as it is
        if kind and not (key in ("tuning", "gpus") and given == ""):
            _require(f"{key}.{shorten(name, 80)}", given, kind)
    pcie = value.get("pcie", {}) if key in PARTS else {}
    if not isinstance(pcie, dict):
        raise ValueError(f"{key}.pcie must be a mapping of lanes and generation, not {shown(pcie)}")
    for name, kind in _PCIE.items():
        if name in pcie:
            _require(f"{key}.pcie.{name}", pcie[name], kind)


def _require(where: str, given: Any, kind: Kind) -> None:
    if not kind[1](given):
        raise ValueError(f"{where} must be {kind[0]}, not {shown(given)}")


def shown(value: Any) -> str:
    """A wrong value as an error names it: on one line, and no longer than tells which it is."""
    return shorten(repr(value), 80)
