"""The faults that a simulated BMC can have: their names, their parameters, and what a parameter may be."""

from __future__ import annotations

from typing import Any

from simulators.bmc.hardware import DRIVES, GPU_SLOTS, PSUS

# name -> parameter -> (default, lowest, highest)
FAULTS: dict[str, dict[str, tuple[float, float, float]]] = {
    "unreachable": {},
    "hangs": {},
    "wrong_password": {},
    "slow": {"seconds": (3, 0, 600)},
    "half_answering": {},
    "not_ready": {"seconds": (30, 1, 3600)},
    "empty_systems": {},
    "gpu_missing": {"gpu": (3, 0, len(GPU_SLOTS) - 1)},
    "nic_missing": {},
    "no_link": {},
    "psu_failed": {"psu": (2, 1, PSUS)},
    "nvme_failed": {"drive": (1, 0, DRIVES - 1)},
    "clock_wrong": {"seconds": (-31_536_000, -1e9, 1e9)},
}


class FaultError(ValueError):
    """A fault's parameter is not one, or is out of range."""


def parameters(name: str, given: dict[str, Any] | None) -> dict[str, float]:
    """Return a fault's parameters, defaults filled in.

    Raises KeyError for a fault that does not exist, FaultError for a parameter that does not fit.
    """
    known = FAULTS[name]
    given = given or {}
    for key in given:
        if key not in known:
            takes = ", ".join(known) or "no parameters"
            raise FaultError(f"fault {name} has no parameter {key!r}; it takes {takes}")
    values: dict[str, float] = {}
    for key, (default, lowest, highest) in known.items():
        value = given.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not lowest <= value <= highest:
            raise FaultError(f"fault {name}: {key} must be a number from {lowest} to {highest}, not {value!r}")
        values[key] = value
    return values


def from_lab(entries: list[Any]) -> dict[str, dict[str, float]]:
    """Return the faults that lab.json gives a machine: names, or {"name": ..., parameters}.

    Raises FaultError for one that does not exist or does not fit.
    """
    faults: dict[str, dict[str, float]] = {}
    for entry in entries:
        given = dict(entry) if isinstance(entry, dict) else {"name": entry}
        name = given.pop("name", None)
        if name not in FAULTS:
            raise FaultError(f"unknown fault {name!r}; there are {', '.join(FAULTS)}")
        faults[name] = parameters(name, given)
    return faults
