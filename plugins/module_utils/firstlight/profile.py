"""Profiles: what a host of one hardware model must have.

Standard library only: the checks on the hosts read profiles too. Files are read and validated by ``sitefiles``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterable, Tuple

from .findings import shorten
from .profile_kinds import PARTS, check_kinds, is_number, is_whole, shown

# every threshold that something reads: a misspelt one would silently never hold
LIMITS = (
    "bmc_clock_fail_seconds",
    "clock_age_seconds",
    "clock_distance_seconds",
    "clock_offset_seconds",
    "clock_skew_seconds",
    "cpu_busy_percent",
    "cpu_idle_microseconds",
    "disk_read_seconds",
    "disk_used_percent",
    "drive_read_mbytes_per_second",
    "fan_percent",
    "gpu_celsius",
    "gpu_corrected_errors",
    "gpu_memory_used_mib",
    "hca_errors_per_hour",
    "hca_link_downs_per_day",
    "hca_module_celsius",
    "inlet_celsius",
    "inventory_days",
    "memory_corrected_per_day",
    "memory_min_bytes",
    "nvlink_errors",
    "nvlink_errors_per_hour",
    "nvlink_replays_per_hour",
    "nvme_media_errors",
    "nvme_wear_percent",
    "zfs_drive_errors",
)

# pcie_acs: disabled; cpu_governor, cpu_energy_preference: as the kernel calls them; hugepages: {size in kB: number};
# transparent_hugepages: always, madvise or never; numa_balancing, swap: enabled or disabled; sysctl: {key: value};
# limits: {nofile, memlock: number or unlimited}
TUNING_KEYS = (
    "pcie_acs",
    "cpu_governor",
    "cpu_energy_preference",
    "hugepages",
    "transparent_hugepages",
    "numa_balancing",
    "swap",
    "sysctl",
    "limits",
)

OS_DISK_KEYS = ("controller", "model", "min_bytes", "max_bytes", "bus", "serial", "exclude_data_drives")


@dataclass(frozen=True)
class Profile:
    """Expectations for one hardware model; a count of 0 means that none is expected.

    gpus: {count, model (text within the GPU's name), driver_required, kernel_module (open or proprietary), nvswitch
    (whether a fabric manager is needed), rdma (how HCAs reach GPU memory: peermem, dmabuf or both), ecc (false: they
    have none), vbios (lowest accepted version), power_watts (their power limit), sm_mhz (what their highest SM clock
    must reach), nvlink {links (of each), gbytes_per_second (of each link)}, topology {gpus (way between every two:
    NV18), nics (how far the nearest NIC may be: PIX, PXB, PHB, NODE, SYS), numa (the node of each, in order)}}
    hcas: {count, rate_gbps, firmware (lowest accepted version), module_firmware (of transceivers, by part number)}
    ethernet: {count, pxe (FQDD of the NIC that installs)}
    nvme: {count, min_bytes} of the data drives
    os_disk: {controller (text within the storage controller's id), model (text within its model), min_bytes,
    max_bytes, bus, serial (a pattern with * and ?), exclude_data_drives}; all that are given must hold
    psus, fans: {count}
    dimms: {count, total_gib}
    gpus, hcas, nvme also: slots (their ids in a complete host), pcie {lanes, generation}; ethernet also: slots, cabled
    (the ports that have a cable); hcas also: cabled (devices or ports, as the host calls them: mlx5_0, mlx5_0/1)
    firmware: {component: lowest accepted version}
    bios: {attribute: value} as the vendor spells them, that the BIOS must have
    limits: thresholds, e.g. {clock_skew_seconds, disk_used_percent}
    tuning: how the host is set, see TUNING_KEYS; what is not given is left as it is
    reboot: {services (units that must be active before a reboot is over)}
    """

    name: str
    vendor: str
    model: str
    gpus: Dict[str, Any] = field(default_factory=dict)
    hcas: Dict[str, Any] = field(default_factory=dict)
    ethernet: Dict[str, Any] = field(default_factory=dict)
    nvme: Dict[str, Any] = field(default_factory=dict)
    os_disk: Dict[str, Any] = field(default_factory=dict)
    psus: Dict[str, Any] = field(default_factory=dict)
    fans: Dict[str, Any] = field(default_factory=dict)
    dimms: Dict[str, Any] = field(default_factory=dict)
    firmware: Dict[str, str] = field(default_factory=dict)
    bios: Dict[str, Any] = field(default_factory=dict)
    limits: Dict[str, float] = field(default_factory=dict)
    tuning: Dict[str, Any] = field(default_factory=dict)
    reboot: Dict[str, Any] = field(default_factory=dict)

    def count(self, part: str) -> int:
        """How many of gpus, hcas, ethernet, nvme, psus, fans or dimms a host must have."""
        return int(getattr(self, part).get("count", 0))

    def limit(self, name: str, default: float) -> float:
        return float(self.limits.get(name, default))

    @classmethod
    def from_dict(cls, data: Dict[str, Any]) -> "Profile":
        """From a mapping as in a profile file; a wrong or missing key or value is a ValueError."""
        if not isinstance(data, dict):
            raise ValueError(f"a profile is a mapping, not {type(data).__name__}")
        unknown = _not_of(data, cls.__dataclass_fields__)
        if unknown:
            raise ValueError(f"unknown key {unknown}; known are {', '.join(cls.__dataclass_fields__)}")
        missing = [key for key in ("name", "vendor", "model") if key not in data]
        if missing:
            raise ValueError(f"key {missing[0]!r} is missing")
        for key, value in data.items():
            _check_value(key, value)
        return cls(**data)


_TEXTS = ("name", "vendor", "model")
_NUMBERS = ("rate_gbps", "min_bytes", "max_bytes", "total_gib", "power_watts", "sm_mhz")


def _check_value(key: str, value: Any) -> None:
    """ValueError when the value of this key of a profile is of a wrong kind."""
    if key in _TEXTS:
        if not isinstance(value, str):
            raise ValueError(f"{key} must be text, not {shown(value)}")
        return
    if not isinstance(value, dict):
        raise ValueError(f"{key} must be a mapping, not {shown(value)}")
    count = value.get("count", 0)
    if key in PARTS and not is_whole(count, 0, 10**9):
        raise ValueError(f"{key}.count must be a whole number, 0 or more, not {shown(count)}")
    for name in value if key == "limits" else [n for n in _NUMBERS if n in value]:
        if not is_number(value[name]):
            raise ValueError(f"{key}.{shorten(name, 60)} must be a number, not {shown(value[name])}")
        if value[name] < 0:
            raise ValueError(f"{key}.{shorten(name, 60)} must be 0 or more, not {shown(value[name])}")
    if key == "tuning" and (unknown := _not_of(value, TUNING_KEYS)):
        raise ValueError(f"unknown key {unknown} of tuning; known are {', '.join(TUNING_KEYS)}")
    check_kinds(key, value)
    if key == "gpus":
        _check_gpus(value)
    if key == "hcas":
        _check_hcas(value)
    if key == "os_disk":
        _check_os_disk(value)


def _not_of(data: Dict[Any, Any], known: Iterable[str]) -> str:
    """The first key that is none of those, as an error names it; empty when all are."""
    wrong = sorted(shown(key) for key in data if not isinstance(key, str) or key not in known)
    return wrong[0] if wrong else ""


def _check_gpus(value: Dict[str, Any]) -> None:
    """ValueError where a value of what the GPU checks expect is of a wrong kind, or a key is unknown."""
    if "vbios" in value and not _VBIOS.match(str(value["vbios"])):
        raise ValueError(f'gpus.vbios must be a version in quotes such as "96.00.A5.00.1A", not {value["vbios"]!r}')
    for part, keys in GPU_PARTS.items():
        inner = value.get(part, {})
        if not isinstance(inner, dict):
            raise ValueError(f"gpus.{part} must be a mapping, not {inner!r}")
        for name, given in inner.items():
            if name not in keys:
                raise ValueError(f"unknown key {name!r} of gpus.{part}; known are {', '.join(keys)}")
            kind, holds = keys[name]
            if not holds(given):
                raise ValueError(f"gpus.{part}.{name} must be {kind}, not {given!r}")


def _check_hcas(value: Dict[str, Any]) -> None:
    """ValueError where a lowest version is none that can be compared."""
    modules = value.get("module_firmware", {})
    if not isinstance(modules, dict):
        raise ValueError(f"hcas.module_firmware must be a mapping, not {modules!r}")
    floors = {f"module_firmware.{part}": version for part, version in modules.items()}
    for name, version in {**floors, **({"firmware": value["firmware"]} if "firmware" in value else {})}.items():
        if not isinstance(version, str) or not re.match(r"^[0-9]{1,9}(\.[0-9]{1,9}){1,5}\Z", version):
            raise ValueError(
                f'hcas.{shorten(name, 80)} must be a version in quotes such as "28.43.2026", not {version!r}'
            )


def _check_os_disk(value: Dict[str, Any]) -> None:
    """ValueError where the conditions cannot hold together, whatever the disk."""
    least, most = value.get("min_bytes", 0), value.get("max_bytes")
    if most is not None and most < least:
        raise ValueError(f"os_disk.max_bytes is {most}, less than min_bytes {least}: no disk can have both")
    if not set(value) - {"exclude_data_drives"} and value and value.get("exclude_data_drives") is not True:
        raise ValueError("os_disk says nothing about the disk: exclude_data_drives is not true, and nothing else given")


_WAY = re.compile(r"^(NV[0-9]{1,3}|PIX|PXB|PHB|NODE|SYS)\Z")
_VBIOS = re.compile(r"^[0-9A-Fa-f]{1,4}(\.[0-9A-Fa-f]{1,4}){2,7}\Z")
# by key of gpus.nvlink and gpus.topology: how an error calls what it must be, and whether it is
GPU_PARTS: Dict[str, Dict[str, Tuple[str, Callable[[Any], bool]]]] = {
    "nvlink": {
        "links": ("a whole number from 1 to 256", lambda value: is_whole(value, 1, 256)),
        "gbytes_per_second": ("a number", is_number),
    },
    "topology": {
        "gpus": ("as nvidia-smi topo -m has it, such as NV18", lambda value: bool(_WAY.match(str(value)))),
        "nics": ("PIX, PXB, PHB, NODE or SYS", lambda value: value in ("PIX", "PXB", "PHB", "NODE", "SYS")),
        "numa": (
            "a list of NUMA nodes such as [0, 0, 1, 1]",
            lambda value: isinstance(value, list) and all(is_whole(node, 0, 1023) for node in value),
        ),
    },
}
