"""HPE iLO 5 and iLO 6.

Quirks: the serial number is padded with blanks on some. InfiniBand ports are among the EthernetInterfaces, which tell
neither link nor kind; the adapter's ports tell GUIDs where other vendors tell MACs. Firmware ids are mere numbers.
What the BMC shows before the first POST is what it found by itself: most of the inventory is missing then. There is
no PowerCycle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..values import text
from .vendor import Vendor


def firmware_component(entry: Any) -> str | None:
    """Name and place: "iLO 5", "System ROM", "ConnectX-6 100GE 1P NIC (PCI-E Slot 1)"."""
    name = text(entry, "Name")
    if name.startswith("Redundant"):
        return None  # the other half of a flash; it does not run
    place = text(entry, "Oem", "Hpe", "DeviceContext")
    return f"{name} ({place})" if name and place and place not in ("System Board", "Embedded Device") else name or None


def incomplete(system: Any) -> Sequence[str]:
    told = text(system, "Oem", "Hpe", "DeviceDiscoveryComplete", "DeviceDiscovery")
    if not told or told == "vMainDeviceDiscoveryComplete":
        return ()
    return ("drives", "gpus", "hcas", "nics")


VENDOR = Vendor(
    name="hpe",
    makers=("hpe", "hewlett"),
    bios=(
        (r"BootMode", "boot_mode"),
        (r"(Slot\d{1,2}|Emb)NicBoot\d{1,2}|PreBootNetwork", "pxe"),
        (r"AccessControlService", "acs"),
        (r"ProcAmdIoVt|IntelProcVtd|ProcAmdIommu", "iommu"),
        (r"MinProcIdlePower|MinProcIdlePkgState", "c_states"),
        (r"Sriov", "sriov"),
        (r"WorkloadProfile|AMDPerformanceWorkloadProfile|PowerRegulator|ProcTurbo", "performance_profile"),
        (r"ProcVirtualization|ProcHyperthreading|ProcSMT|ProcAMDVirtualization", "virtualization"),
        (r"NumaMemoryDomainsPerSocket|SubNumaClustering|NumaGroupSizeOpt", "numa"),
        (r"SecureBootStatus", "secure_boot"),
    ),
    firmware=firmware_component,
    incomplete=incomplete,
)
