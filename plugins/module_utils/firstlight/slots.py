"""Where a part sits, as a finding's evidence ends with it: ``...; sits in PCIe Slot 33, Video.Slot.25-1``.

The locator stays as the kernel spells the part: that is a cause's identity. A host says its own slot first, the
controller adds the BMC's. What is in there may be a stranger's.

Standard library only: this file also runs on the hosts.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Dict

from .findings import EVIDENCE_MAX, Finding, shorten

GPUS_MAX = 64  # of one host

_SAID = "sits in "
_NAME = r"[A-Za-z0-9][A-Za-z0-9 ._:/#()+-]{0,58}[A-Za-z0-9)]"
_ENDS = re.compile(rf"(?:^|; ){_SAID}({_NAME}(?:, {_NAME})?)$")
_ADDRESS = re.compile(r"(?<![0-9a-z:.])0*([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})(?![0-9a-z:])", re.IGNORECASE)
_SERIAL = re.compile(r"[A-Z0-9-]{4,32}")


def slot_of(evidence: str) -> str:
    """The slots that it ends with, empty where it ends otherwise."""
    found = _ENDS.search(evidence)
    return found.group(1) if found else ""


def with_slot(finding: Finding, name: str) -> Finding:
    """The finding with this slot in its evidence; as it was where that is no slot's name, is said, or two are."""
    said = slot_of(finding.evidence)
    names = said.split(", ") if said else []
    if not is_slot(name) or name in names or len(names) > 1:
        return finding
    before = finding.evidence[: -len(_SAID + said)].rstrip("; ") if said else finding.evidence
    end = _SAID + ", ".join([*names, name])
    before = shorten(before, EVIDENCE_MAX - len(end) - 2)
    return replace(finding, evidence=f"{before}; {end}" if before else end)


def is_slot(name: str) -> bool:
    return re.fullmatch(_NAME, name) is not None


def address_of(text: str) -> str:
    """The one PCI device that it names, as ``0000:9a:00`` whatever its function; empty for none or several."""
    found = {f"{int(a, 16):04x}:{b}:{c}".lower() for a, b, c in _ADDRESS.findall(text)}
    return found.pop() if len(found) == 1 else ""


def serials(told: Any) -> Dict[str, str]:
    """Serial numbers of GPUs by PCI address, of whatever a host told; no serial number of two."""
    found: Dict[str, str] = {}
    for address, value in list(told.items())[:GPUS_MAX] if isinstance(told, dict) else ():
        number = serial(value)
        if number and isinstance(address, str) and address_of(address) == address:
            found[address] = number
    numbers = list(found.values())
    return {address: number for address, number in found.items() if numbers.count(number) == 1}


def serial(value: Any) -> str:
    """A serial number as all spell it; empty for what is none, such as N/A or zeros alone."""
    number = value.strip().upper() if isinstance(value, str) else ""
    return number if _SERIAL.fullmatch(number) and number.strip("0-") else ""
