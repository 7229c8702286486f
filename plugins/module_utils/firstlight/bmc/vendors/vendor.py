"""What one vendor's BMCs do in their own way: data, and a few functions over one resource. No requests here."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..values import text

# What a BIOS attribute is about, whatever its vendor calls it; the symptom of a wrong one is bios.<meaning>.
MEANINGS = (
    "boot_mode",
    "pxe",
    "acs",
    "iommu",
    "c_states",
    "sriov",
    "performance_profile",
    "virtualization",
    "numa",
    "above_4g",
    "secure_boot",
)


def serial_number(system: Any, chassis: Any) -> str:
    """The tag of most vendors: the serial number of the system, else of its chassis."""
    return told(system, "SerialNumber") or told(chassis, "SerialNumber")


def told(node: Any, *keys: str | int) -> str:
    """Text that says something: not the fillers that firmware writes where it knows nothing."""
    found = text(node, *keys)
    return "" if _FILLER.match(found) else found


_FILLER = re.compile(
    r"^(n/?a|none|null|unknown|not specified|default string|0+|to be filled by o\.?e\.?m\.?|\W*)$", re.I
)


def by_id(entry: Any) -> str | None:
    return text(entry, "Id") or None


def nothing(_system: Any) -> Sequence[str]:
    return ()


@dataclass(frozen=True)
class Vendor:
    """One vendor.

    makers: how the Manufacturer of its systems begins. bios: (pattern of an attribute's whole name, its meaning): these
    attributes are kept, of some 300 to 1,500. tag: what identifies the machine, printed on it. firmware: the component
    that an entry of the firmware inventory is about, None for what is not running. bmc: the BMC's kind and generation.
    inventory_time: when the BMC last took stock, ISO. incomplete: parts that the BMC says it has not taken stock of.
    """

    name: str
    makers: tuple[str, ...]
    bios: tuple[tuple[str, str], ...] = ()
    tag: Callable[[Any, Any], str] = serial_number
    firmware: Callable[[Any], str | None] = by_id
    bmc: Callable[[Any], str] = lambda manager: text(manager, "Model")
    inventory_time: Callable[[Any], str] = lambda system: ""
    incomplete: Callable[[Any], Sequence[str]] = nothing
    _patterns: list[tuple[re.Pattern[str], str]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_patterns", [(re.compile(p), meaning) for p, meaning in self.bios])

    def meaning(self, attribute: str) -> str | None:
        """What a BIOS attribute is about, one of MEANINGS; None for one that is none of our business."""
        return next((meaning for pattern, meaning in self._patterns if pattern.fullmatch(attribute)), None)
