"""Lenovo XCC.

Quirks: EthernetInterfaces can be empty; a port's MAC is in AssociatedMACAddresses or in Oem.Lenovo, without colons.
GPUs have neither model nor status among the Processors: their PCIe device has. SKU is the machine type. A fan's
SpeedPercent.Reading is in RPM. PATCH needs If-Match.
"""

from __future__ import annotations

from typing import Any

from ..values import text
from .vendor import Vendor


def firmware_component(entry: Any) -> str | None:
    identity = text(entry, "Id")
    return None if identity.endswith(("-Pending", "-Backup")) else identity or None


VENDOR = Vendor(
    name="lenovo",
    makers=("lenovo",),
    bios=(
        (r"BootModes_SystemBootMode", "boot_mode"),
        (r"NetworkStackSettings_(IPv4PXESupport|NetworkStack)", "pxe"),
        (r"Processors_PCIeACSCTL|DevicesandIOPorts_ACS\w*", "acs"),
        (r"DevicesandIOPorts_(IntelVTforDirectedIOVTd|IOMMU|DMAControlOpt_InFlag)", "iommu"),
        (r"Processors_(CStates|C1EnhancedMode|PackageCState\w*|GlobalC_stateControl)", "c_states"),
        (r"DevicesandIOPorts_SRIOV", "sriov"),
        (r"OperatingModes_ChooseOperatingMode|Power_PowerPerformanceBias|Processors_TurboMode", "performance_profile"),
        (r"Processors_(HyperThreading|IntelVirtualizationTechnology|SMTMode|SVMMode)", "virtualization"),
        (r"Processors_SNC|Processors_NUMANodesperSocket|Memory_NUMANodesperSocket", "numa"),
        (r"DevicesandIOPorts_(MMConfigBase|PCI64_BitResource\w*)", "above_4g"),
        (r"SecureBootConfiguration_SecureBootSetting", "secure_boot"),
    ),
    firmware=firmware_component,
    bmc=lambda manager: "XCC",
)
