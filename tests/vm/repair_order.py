"""The repair order that findings of a host become, by the project's own planner of tickets and its text."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from firstlight.findings import Finding
from firstlight.policy.settings import Policy
from firstlight.slots import slot_of
from firstlight.tickets.model import Place, Ticket
from firstlight.tickets.neutral import neutral
from firstlight.tickets.plan import Held, HostNow, plan
from firstlight.tickets.text import Texts
from firstlight.tickets.words import steps

STAGE = "smoke"


def tickets_of(findings: Iterable[dict[str, Any]]) -> list[Ticket]:
    """The tickets that a host of which this is all that is known gets, under the default policy."""
    held = tuple(Held.of(Finding.from_dict(row), STAGE) for row in findings)
    host = HostNow("vm", "VMTAG01", Place("lab", "r1", 7, "vm"), held, {STAGE: "failed"})
    return plan(Policy(), [], [host], datetime.now(UTC)).opened


def repair_order(findings: Iterable[dict[str, Any]], serial: str) -> Ticket:
    """The one ticket of these findings, about the drive with this serial number.

    AssertionError where there is another number of tickets, or where its text does not name the drive by its serial
    number, its slot where a finding tells it, and what to do with that very drive.
    """
    rows = list(findings)
    made = tickets_of(rows)
    assert len(made) == 1, f"{len(made)} tickets: {[(one.id, str(one.cause)) for one in made]}"
    ticket, text = made[0], Texts().markdown(made[0])
    assert (ticket.cause.kind, ticket.cause.part) == ("drive", f"serial {serial}"), str(ticket.cause)
    assert ticket.action in ("reseat", "replace"), f"nobody goes there for {ticket.action}"
    todo = steps(ticket)
    assert any(neutral(serial) in step for step in todo), f"which drive? {todo}"
    for step in todo:
        assert step in text, f"the text lacks the step {step!r}: {text}"
    for row in rows:
        slot = slot_of(str(row["evidence"])) if serial in str(row["locator"]) else ""
        assert neutral(slot) in text, f"the text lacks the slot {slot}: {text}"
    return ticket
