"""Vendor differences: which vendor a tree is of, and which of its systems is the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..values import text
from . import dell, hpe, lenovo, nvidia, openbmc, supermicro
from .vendor import MEANINGS, Vendor

__all__ = ["MEANINGS", "Vendor", "host_system", "vendor_of"]

VENDORS = (dell.VENDOR, hpe.VENDOR, lenovo.VENDOR, supermicro.VENDOR, nvidia.VENDOR)


def vendor_of(*makers: str) -> Vendor:
    """The vendor that the first of these names tells, e.g. the system's and the service root's; OpenBMC's otherwise."""
    for maker in makers:
        for vendor in VENDORS:
            if maker.lower().startswith(vendor.makers):
                return vendor
    return openbmc.VENDOR


def host_system(systems: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The system that runs the operating system; {} when there is none."""
    hosts = [system for system in systems if not nvidia.is_baseboard(system)] or list(systems)
    physical = [system for system in hosts if text(system, "SystemType") in ("Physical", "")]
    return (physical or hosts or [{}])[0]
