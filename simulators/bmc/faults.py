"""The faults that a simulated BMC can have: their names, their parameters, and what a parameter may be.

README.md says what each of them does.
"""

from __future__ import annotations

from typing import Any

from simulators.bmc.hardware import DIMMS, DRIVES, FANS, GPU_SLOTS, HCA_SLOTS, PSUS

Value = float | str
Faults = dict[str, dict[str, Value]]

_GPU = (3, 0, len(GPU_SLOTS) - 1)
_HCA = (2, 0, len(HCA_SLOTS) - 1)
_DRIVE = (1, 0, DRIVES - 1)
_PSU = (2, 1, PSUS)
_DIMM = (4, 1, len(DIMMS))
_SOME = (30, 1, 100)  # percent of the resources
_OTHER = (1, 1, 100_000)  # the number of another machine

# name -> parameter -> (default, lowest, highest), or the default of a text
FAULTS: dict[str, dict[str, tuple[float, float, float] | str]] = {
    # the connection
    "unreachable": {},
    "hangs": {},
    "refused": {},
    "black_hole": {},
    "mute": {},
    "tls_wrong_name": {},
    "tls_other_ca": {},
    "tls_expired": {},
    # who may ask
    "wrong_password": {},
    "blocked": {"status": (401, 401, 429)},
    "busy": {"basic": (0, 0, 1)},
    # when and how it answers
    "slow": {"seconds": (3, 0, 600)},
    "late_answer": {"seconds": (60, 0, 600)},
    "not_ready": {"seconds": (30, 1, 3600), "code": "SYS518"},
    "empty_systems": {},
    "half_answering": {},
    "truncated_json": {"percent": _SOME},
    "doubled_json": {"percent": _SOME},
    "wrong_types": {"percent": _SOME},
    "null_lists": {"percent": _SOME},
    "dead_members": {"percent": (100, 1, 100)},
    "redirect": {"percent": _SOME},
    "cut_answer": {"percent": _SOME},
    "huge_answer": {"percent": _SOME, "megabytes": (64, 1, 1024)},
    # which machine it is
    "wrong_model": {"model": "PowerEdge R760xa"},
    "wrong_tag": {"tag": "WR0NG01"},
    "no_tag": {},
    "duplicate_tag": {"of": _OTHER},
    "duplicate_mac": {"of": _OTHER},
    # network ports
    "nic_missing": {},
    "no_link": {},
    "cable_in_wrong_port": {},
    "odd_macs": {},
    "hca_missing": {"hca": _HCA},
    "hca_failed": {"hca": _HCA},
    "hca_no_link": {"hca": _HCA},
    # GPUs, drives, PCIe
    "gpu_missing": {"gpu": _GPU},
    "gpu_failed": {"gpu": _GPU},
    "baseboard_starting": {},
    "nvme_missing": {"drive": _DRIVE},
    "nvme_failed": {"drive": _DRIVE},
    "nvme_worn": {"drive": _DRIVE, "percent_left": (2, 0, 100)},
    "os_disk_missing": {},
    # what a disk holds, which no BMC sees: see simulators/disk_heads.py
    "data_drive_used": {"drive": _DRIVE},
    "data_drive_written": {"drive": _DRIVE},
    "pcie_narrow": {"gpu": (3, -1, 7), "hca": (-1, -1, 7), "drive": (-1, -1, 7), "width": (1, 1, 16)},
    "pcie_slow": {"gpu": (3, -1, 7), "hca": (-1, -1, 7), "generation": (3, 1, 5)},
    # what only the installed host shows: see simulators/host/shims
    "gpu_lost": {"gpu": _GPU},
    "gpu_ecc": {"gpu": _GPU, "errors": (2, 1, 1_000_000)},
    "gpu_xid": {"gpu": _GPU, "xid": (79, 1, 999)},
    "nvlink_down": {"gpu": _GPU, "link": (7, 0, 17)},
    "nvlink_errors": {"gpu": _GPU, "link": (7, 0, 17), "recovered": (1, 1, 1_000_000)},
    "disk_full": {},
    "host_clock_off": {"seconds": (12, -1e6, 1e6)},
    "exporter_dead": {},
    "mirror_down": {},
    "command_hangs": {"tool": "nvme"},
    # power, cooling, memory, chassis
    "psu_missing": {"psu": _PSU},
    "psu_failed": {"psu": _PSU},
    "psu_unplugged": {"psu": _PSU},
    "redundancy_lost": {},
    "fan_failed": {"fan": (1, 1, FANS)},
    "fan_full_speed": {},
    "too_hot": {"celsius": (52, -40, 150)},
    "dimm_failed": {"dimm": _DIMM},
    "dimm_missing": {"dimm": _DIMM},
    "intrusion": {},
    # what it remembers and how it is set
    "clock_wrong": {"seconds": (-31_536_000, -1e9, 1e9)},
    "old_inventory": {"days": (120, 1, 3650)},
    "old_firmware": {"component": "bios", "version": "1.1.2"},
    "bios_wrong": {"attribute": "PxeDev1EnDis", "value": "Disabled"},
    "sel_critical": {"count": (2, 1, 100), "hours": (3, 0, 100_000)},
    # what it does for Dell's support
    "eula_not_accepted": {},
    "support_data_fails": {},
}

FIRMWARE_COMPONENTS = ("bios", "bmc", "hca", "gpu", "nic", "nvme", "psu")
_CHOICES = {
    "component": FIRMWARE_COMPONENTS,
    "code": ("SYS518", "SWC0700", "SYS446"),
    "tool": ("nvidia-smi", "nvme", "ibstat", "dmesg"),
}


class FaultError(ValueError):
    """A fault's parameter is not one, or is out of range."""


def parameters(name: str, given: dict[str, Any] | None) -> dict[str, Value]:
    """Return a fault's parameters, defaults filled in.

    Raises KeyError for a fault that does not exist, FaultError for a parameter that does not fit.
    """
    known = FAULTS[name]
    given = given or {}
    for key in given:
        if key not in known:
            takes = ", ".join(known) or "no parameters"
            raise FaultError(f"fault {name} has no parameter {key!r}; it takes {takes}")
    values: dict[str, Value] = {}
    for key, allowed in known.items():
        if isinstance(allowed, str):
            values[key] = _text(name, key, given.get(key, allowed))
            continue
        default, lowest, highest = allowed
        value = given.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not lowest <= value <= highest:
            raise FaultError(f"fault {name}: {key} must be a number from {lowest} to {highest}, not {value!r}")
        values[key] = value
    return values


def _text(name: str, key: str, value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= 100 or not value.isprintable():
        raise FaultError(f"fault {name}: {key} must be a text of 1 to 100 characters, not {value!r}")
    if key in _CHOICES and value not in _CHOICES[key]:
        raise FaultError(f"fault {name}: {key} must be one of {', '.join(_CHOICES[key])}, not {value!r}")
    return value


def from_lab(entries: list[Any]) -> Faults:
    """Return the faults that lab.json gives a machine: names, or {"name": ..., parameters}.

    Raises FaultError for one that does not exist or does not fit.
    """
    faults: Faults = {}
    for entry in entries:
        given = dict(entry) if isinstance(entry, dict) else {"name": entry}
        name = given.pop("name", None)
        if name not in FAULTS:
            raise FaultError(f"unknown fault {name!r}; there are {', '.join(FAULTS)}")
        faults[name] = parameters(name, given)
    return faults


# What goes into the event log when a fault begins: MessageId, severity, text with {parameters}, category.
EVENTS: dict[str, tuple[str, str, str, str]] = {
    "gpu_failed": ("PCI1318", "Critical", "A fatal error was detected on the GPU in slot {gpu_slot}.", "SystemHealth"),
    "hca_failed": ("PCI1318", "Critical", "A fatal error was detected on a component in slot {hca_slot}.",
                   "SystemHealth"),
    "no_link": ("NIC100", "Warning", "The NIC in Embedded 1 Port 1 network link is down.", "SystemHealth"),
    "nvme_failed": ("PDR1001", "Critical", "Fault detected on drive {drive}.", "Storage"),
    "psu_failed": ("PSU0001", "Critical", "Power supply {psu} failed.", "SystemHealth"),
    "psu_unplugged": ("PSU0003", "Critical", "The power input for power supply {psu} is lost.", "SystemHealth"),
    "redundancy_lost": ("RDU0012", "Critical", "Power supply redundancy is lost.", "SystemHealth"),
    "fan_failed": ("FAN0001", "Critical", "Fan {fan} RPM is less than the lower critical threshold.", "SystemHealth"),
    "too_hot": ("TMP0120", "Critical", "The system inlet temperature is greater than the upper critical threshold.",
                "SystemHealth"),
    "dimm_failed": ("MEM0001", "Critical",
                    "Multi-bit memory errors detected on a memory device at location DIMM_{dimm_slot}.",
                    "SystemHealth"),
    "intrusion": ("SEC0031", "Critical", "The chassis is open while the power is off.", "SystemHealth"),
    "sel_critical": ("CPU0000", "Critical", "CPU 1 has an internal error (IERR).", "SystemHealth"),
}  # fmt: skip


def event_text(name: str, values: dict[str, Value]) -> tuple[str, tuple[str, ...]]:
    """Return the text of a fault's event, and its arguments."""
    numbers: dict[str, Any] = {key: int(v) if isinstance(v, int | float) else v for key, v in values.items()}
    arguments = tuple(str(value) for value in numbers.values())
    numbers["gpu_slot"] = GPU_SLOTS[numbers.get("gpu", 0)]
    numbers["hca_slot"] = HCA_SLOTS[numbers.get("hca", 0)]
    numbers["dimm_slot"] = DIMMS[numbers.get("dimm", 1) - 1]
    return EVENTS[name][2].format(**numbers), arguments
