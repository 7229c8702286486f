"""In which of the BMC's slots a GPU sits that a host's checks name by its PCI address: by its serial number. Pure.

A GPU that is lost tells no serial number any more, so what is found is remembered from run to run. It holds while the
BMC has that serial number in that slot: after two GPUs were exchanged nothing is said until both have told theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..findings import Finding
from ..slots import GPUS_MAX, address_of, is_slot, serial, serials, with_slot

Known = dict[str, dict[str, str]]  # by PCI address: {"serial": ..., "slot": ...}; ready for JSON


def gpu_slots(told: Any, record: Any, before: Any) -> Known:
    """What is known after this answer; nothing where the BMC tells nothing.

    told: serial numbers of GPUs by PCI address, as the host has them. record: of its BMC, as hostvars have it. before:
    what was known, in whatever shape it was kept.
    """
    here, of_bmc = serials(told), _slots(record)
    known = {
        address: {"serial": number, "slot": of_bmc[number]}
        for address, number in _kept(before).items()
        if number in of_bmc and before[address].get("slot") == of_bmc[number] and number not in here.values()
    }
    known.update({a: {"serial": number, "slot": of_bmc[number]} for a, number in here.items() if number in of_bmc})
    return {address: row for address, row in known.items() if here.get(address, row["serial"]) == row["serial"]}


def placed(findings: Iterable[Finding], known: Known) -> list[Finding]:
    """The findings, with the BMC's slot in the evidence of those that are about one of these GPUs."""

    def of(finding: Finding) -> Finding:
        row = known.get(address_of(finding.locator))
        return with_slot(finding, row["slot"]) if row and finding.status != "ok" else finding

    return [of(finding) for finding in findings]


def _kept(before: Any) -> dict[str, str]:
    rows = before.items() if isinstance(before, dict) else ()
    return serials({address: row.get("serial") for address, row in rows if isinstance(row, dict)})


def _slots(record: Any) -> dict[str, str]:
    """Slot by serial number; not of what a BMC tells twice."""
    hardware = record.get("hardware") if isinstance(record, Mapping) else None
    gpus = hardware.get("gpus") if isinstance(hardware, Mapping) else None
    rows = [gpu for gpu in (gpus if isinstance(gpus, list) else [])[:GPUS_MAX] if isinstance(gpu, Mapping)]
    found = [(serial(gpu.get("serial")), gpu.get("id")) for gpu in rows]
    numbers = [number for number, _ in found]
    return {n: slot for n, slot in found if n and isinstance(slot, str) and is_slot(slot) and numbers.count(n) == 1}
