"""Supermicro.

Quirks: upper and lower case MACs are mixed. Two adapters can both have a port "1", and all EthernetInterfaces of add-on
cards be called AOC_NIC1. GPUs are PCIe devices GPU1 to GPU8 of the chassis, their functions have no class. Drives hang
from backplanes that are chassis, and say no protocol. BIOS attributes end in a number that changes with the version.
SKU is a board id.
"""

from __future__ import annotations

from typing import Any

from ..values import text
from .vendor import Vendor


def firmware_component(entry: Any) -> str | None:
    identity = text(entry, "Id")
    not_running = identity.startswith(("Backup_", "Golden_", "Staging_", "Capsule_"))
    return None if not_running else identity or None


VENDOR = Vendor(
    name="supermicro",
    makers=("supermicro", "super micro"),
    bios=(
        (r"BootModeSelect_\w+|Bootmodeselect_\w+", "boot_mode"),
        (r"(IPv4PXESupport|NetworkStack)_\w+", "pxe"),
        (r"(PCIeACSCTL|ACSEnable|ACSControl)_\w+", "acs"),
        (r"(IntelVTforDirectedI_O_VT_d_|IOMMU|Pre_bootDMAProtection)_\w+", "iommu"),
        (r"(CPUC6Report|EnhancedHaltState_C1E_|PackageCState|GlobalC_stateControl)_\w+", "c_states"),
        (r"SR_IOVSupport_\w+", "sriov"),
        (r"(PowerPerformanceTuning|TurboMode|EnergyPerformanceBIAS\w*|Determinism\w+)_\w+", "performance_profile"),
        (r"(IntelVirtualizationTechnology|SVMMode|Hyper_Threading\w*|SMTControl)_\w+", "virtualization"),
        (r"(NUMA|SNC|NUMANodesPerSocket)_\w+", "numa"),
        (r"(Above4GDecoding|MMIOHighGranularitySize)_\w+", "above_4g"),
        (r"SecureBootEnable_\w+", "secure_boot"),
    ),
    firmware=firmware_component,
    bmc=lambda manager: "Supermicro BMC",
)
