"""NVIDIA DGX and HGX (AMI firmware on the host's side), GB200 and GH200 (OpenBMC on both).

Quirks: GPUs are in a second system, HGX_Baseboard_0, behind a second BMC, HGX_BMC_0. When that is down, the Processors
still say OK; its Manager says Starting, and the firmware inventory HGX_FW_GPU_n Critical, Absent. A GB200's host system
names neither maker nor model nor serial number: its shelf, a chassis, does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ..values import health, link, state, text
from .vendor import Vendor, serial_number, told

_FIRMWARE = re.compile(r"^(?:HGX_)?FW_(GPU_(?:SXM_)?\d+)$")


def is_baseboard(resource: Any) -> bool:
    """A system or manager that is the GPUs' and not the host's."""
    return text(resource, "Id").startswith("HGX_") or name_of(resource).startswith("HGX_")


def name_of(resource: Any) -> str:
    """The last part of its path: a DGX's HGX_BMC_0 gives itself the id "bmc"."""
    return link(resource).rstrip("/").rsplit("/", 1)[-1]


def shelf(chassis: Iterable[Any]) -> dict[str, Any]:
    """The chassis that is the machine, of dozens; {} when none says so."""
    for kind in ("RackMount", "Shelf", "StandAlone"):
        for one in chassis:
            if isinstance(one, dict) and text(one, "ChassisType") == kind and told(one, "SerialNumber"):
                return one
    return {}


def gpu_firmware(inventory: Iterable[Any]) -> Mapping[str, tuple[str, str]]:
    """(health, state) of the firmware of each GPU, by the GPU's id."""
    found = {}
    for entry in inventory:
        match = _FIRMWARE.match(text(entry, "Id"))
        if match:
            found[match[1]] = (health(entry), state(entry))
    return found


VENDOR = Vendor(
    name="nvidia",
    makers=("nvidia",),
    bios=(
        (r"BootModeSelect", "boot_mode"),
        (r"Ipv4Pxe|NetworkStack", "pxe"),
        (r"AcsEnable|PcieAcs\w*|ACSControl", "acs"),
        (r"VTdSupport|ControlIommu|DmaCtrlOptIn|SMMU\w*", "iommu"),
        (r"PackageCState|C6Enable|MonitorMWait|ProcessorC1eEnable", "c_states"),
        (r"SriovSupport|SRIOVEnable", "sriov"),
        (r"PwrPerfTuning|AltEngPerfBIAS|TurboMode|ApplicationProfile|WorkLdConfig", "performance_profile"),
        (r"ProcessorVmxEnable|ProcessorHyperThreadingDisable", "virtualization"),
        (r"NumaEn|UmaBasedClustering", "numa"),
        (r"SecureBootSupport", "secure_boot"),
    ),
    tag=serial_number,
    bmc=lambda manager: "OpenBMC" if text(manager, "Model").lower() == "openbmc" else "DGX BMC",
)
