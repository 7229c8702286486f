"""OpenBMC as it comes, and everything that is of no vendor known here: the standard, and nothing but the standard."""

from __future__ import annotations

from ..values import text
from .vendor import Vendor

VENDOR = Vendor(
    name="openbmc",
    makers=(),
    bios=(
        (r"(?i:boot_?mode\w*)", "boot_mode"),
        (r"(?i:\w*(ipv4_?pxe|network_?stack)\w*)", "pxe"),
        (r"(?i:\w*(acs_?enable|acs_?control|access_?control_?service)\w*)", "acs"),
        (r"(?i:\w*(iommu|vt_?d|smmu)\w*)", "iommu"),
        (r"(?i:\w*(c_?states?|c1e)\w*)", "c_states"),
        (r"(?i:\w*sr_?iov\w*)", "sriov"),
    ),
    bmc=lambda manager: "OpenBMC" if text(manager, "Model").lower() == "openbmc" else text(manager, "Model"),
)
