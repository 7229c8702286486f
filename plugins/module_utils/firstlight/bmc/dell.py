"""What is Dell's own: FQDDs, the service tag, the inventory's age, BIOS attributes, how firmware is named."""

from __future__ import annotations

import re
from typing import Any

from .values import text

# NIC.Embedded.1-1-1, NIC.Slot.5-1, InfiniBand.Slot.31-1: adapter, port, and the partition where there are several.
_FQDD = re.compile(r"^((?:NIC|InfiniBand|FC)\.[A-Za-z]+\.[0-9A-Z]+)-(\d{1,3})(?:-(\d{1,3}))?$")

# Of some 300 attributes, those that decide whether the machine boots from the network and trains well.
BIOS_ATTRIBUTES = re.compile(
    r"^(BootMode|PxeDev\d{1,2}(EnDis|Interface)|SysProfile|ProcVirtualization|SriovGlobalEnable|LogicalProc"
    r"|ProcCStates|NumaNodesPerSocket|SubNumaCluster|IommuSupport|AcsSupport|KernelDmaProtection|SecureBoot)$"
)


def is_dell(system: Any) -> bool:
    return text(system, "Manufacturer").startswith("Dell")


def fqdd(identity: str) -> tuple[str, str, int] | None:
    """Adapter, port and partition of a port's or function's FQDD; None for any other id."""
    match = _FQDD.match(identity)
    if not match:
        return None
    return match[1], match[2], int(match[3] or 1)


def service_tag(system: Any) -> str:
    """The tag printed on the machine; SerialNumber is the board's."""
    return text(system, "SKU") or text(system, "Oem", "Dell", "DellSystem", "ChassisServiceTag")


def inventory_time(system: Any) -> str:
    return text(system, "Oem", "Dell", "DellSystem", "LastSystemInventoryTime")


def firmware_component(identity: str) -> str | None:
    """The FQDD in an inventory id: Installed-159-1.8.2__BIOS.Setup.1-1; None for what is not installed."""
    kind, _, rest = identity.partition("-")
    if kind in ("Previous", "Available", "Current"):  # Current repeats Installed for what was updated
        return None
    return rest.partition("__")[2] or None if kind == "Installed" else identity
