"""Triage of what only the past shows: what the BMC noted, and what changed since it was asked before."""

from __future__ import annotations

from collections.abc import Sequence

from ..findings import Finding
from .hardware import Hardware, Record


def log(hardware: Hardware, found: Sequence[Finding]) -> list[Finding]:
    """The BMC noted nothing critical lately that no other finding tells.

    A log keeps what was repaired since, so this only says where to look. found: what else is wrong.
    """
    critical = [entry for entry in hardware.log if entry.severity == "Critical"]
    if not critical or any(f.status != "ok" for f in found):
        return [Finding("log", "ok", "log", "", f"{len(hardware.log)} entries, {len(critical)} of them critical")]
    first = critical[0]
    more = f" (and {len(critical) - 1} more)" if len(critical) > 1 else ""
    evidence = f"{first.time} {first.code} {first.message}{more}"
    return [Finding("log", "warn", "log.critical", f"BMC log {first.log}", evidence)]


def changes(hardware: Hardware, previous: Record | None) -> list[Finding]:
    """What is another machine, or another board, than before. previous: the last record in which the BMC answered."""
    before = previous.hardware if previous else None
    if before is None or previous is None:
        return []
    found = []
    if before.service_tag and hardware.service_tag and before.service_tag != hardware.service_tag:
        evidence = f"service tag {hardware.service_tag}; it was {before.service_tag} on {previous.asked_at}"
        found.append(Finding("changes", "warn", "host.changed", "system", evidence))
    elif before.board_serial and hardware.board_serial and before.board_serial != hardware.board_serial:
        evidence = f"board {hardware.board_serial}; it was {before.board_serial} on {previous.asked_at}"
        found.append(Finding("changes", "warn", "host.board_replaced", "system board", evidence))
    for nic in hardware.nics:
        old = before.nic(nic.id)
        if old and old.mac and nic.mac and old.mac != nic.mac:
            evidence = f"has MAC {nic.mac}; it was {old.mac} on {previous.asked_at}"
            found.append(Finding("changes", "warn", "nic.changed_mac", nic.id, evidence))
    return found or [Finding("changes", "ok", "changes", "", f"as on {previous.asked_at}")]
