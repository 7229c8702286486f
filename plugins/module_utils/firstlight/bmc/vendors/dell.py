"""Dell iDRAC 8, 9 and 10.

Tree-borne quirks: the service tag is SKU, SerialNumber is the board's. Each of three places of a MAC can be empty while
another is filled. InfiniBand ports are known by the prefix of their FQDD only. iDRAC 8 has no GPUs among its
Processors: they are the PCIe functions of class 0x0302xx. LinkStatus was LinkDown on every port of a running R750.
"""

from __future__ import annotations

import re
from typing import Any

from ..values import text
from .vendor import Vendor

# NIC.Embedded.1-1-1, NIC.Slot.5-1, InfiniBand.Slot.31-1: adapter, port, and the partition where there are several.
_FQDD = re.compile(r"^((?:NIC|InfiniBand|FC)\.[A-Za-z]+\.[0-9A-Z]+)-(\d{1,3})(?:-(\d{1,3}))?$")


def fqdd(identity: str) -> tuple[str, str, int] | None:
    """Adapter, port and partition of a port's or function's FQDD; None for any other id."""
    match = _FQDD.match(identity)
    if not match:
        return None
    return match[1], match[2], int(match[3] or 1)


def service_tag(system: Any, chassis: Any) -> str:
    """The tag printed on the machine; SerialNumber is the board's."""
    return text(system, "SKU") or text(system, "Oem", "Dell", "DellSystem", "ChassisServiceTag") or text(chassis, "SKU")


def inventory_time(system: Any) -> str:
    return text(system, "Oem", "Dell", "DellSystem", "LastSystemInventoryTime")


def firmware_component(entry: Any) -> str | None:
    """The FQDD in an inventory id: Installed-159-1.8.2__BIOS.Setup.1-1; None for what is not installed."""
    identity = text(entry, "Id")
    kind, _, rest = identity.partition("-")
    if kind in ("Previous", "Available", "Current"):  # Current repeats Installed for what was updated
        return None
    return rest.partition("__")[2] or None if kind == "Installed" else identity or None


def generation(manager: Any) -> str:
    """iDRAC 8, 9 or 10: told by the generation of servers that it sits in."""
    match = re.match(r"^(\d{2})G", text(manager, "Model"))
    server = int(match[1]) if match else 0
    return f"iDRAC {8 if server < 14 else 9 if server < 17 else 10}" if server else "iDRAC"


VENDOR = Vendor(
    name="dell",
    makers=("dell",),
    bios=(
        (r"BootMode", "boot_mode"),
        (r"PxeDev\d{1,2}(EnDis|Interface)", "pxe"),
        (r"AcsSupport", "acs"),
        (r"IommuSupport|KernelDmaProtection", "iommu"),
        (r"ProcCStates|ProcC1E", "c_states"),
        (r"SriovGlobalEnable", "sriov"),
        (r"SysProfile|WorkloadProfile|ProcPwrPerf|ProcTurboMode", "performance_profile"),
        (r"ProcVirtualization|LogicalProc", "virtualization"),
        (r"NumaNodesPerSocket|SubNumaCluster", "numa"),
        (r"MmioAbove4Gb", "above_4g"),
        (r"SecureBoot", "secure_boot"),
    ),
    tag=service_tag,
    firmware=firmware_component,
    bmc=generation,
    inventory_time=inventory_time,
)
