"""Delivery: what each output has of each ticket is noted in the ledger, and what it has not is tried again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta

from ..errors import InputError
from ..ledger.store import Ledger
from ..ledger.tickets import delivered, note_delivery
from .model import CLOSED, Ticket
from .outputs import Folder, Output, Refused
from .telling import reason

SECONDS = 120.0  # for one output in one call; a run does not wait longer for it
REFUSED_MAX = 5  # tickets that an output does not take before it is left alone
LATE = timedelta(days=30)  # a ticket that was closed longer ago opens nothing at an output that never heard of it


class Outbox:
    """Tells outputs of tickets that are in the ledger.

    Each delivery is noted there right after it, so that a crash can only leave too little noted: then that one is told
    once more, and outputs know it again. Two processes at once: see ``ledger.tickets.delivering``.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def waiting(
        self,
        output: str,
        tickets: Iterable[Ticket],
        now: datetime | None = None,
        has: Callable[[Ticket], bool] | None = None,
    ) -> list[Ticket]:
        """Those of which this output has not the last version, oldest change first.

        has: whether the output still has what it was told; what it has no more is told as if it never was.
        """
        notes = delivered(self._ledger, output)
        since = ((now or datetime.now(UTC)) - LATE).isoformat(timespec="seconds")

        def lacks(ticket: Ticket) -> bool:
            if ticket.id not in notes:
                return _is_news(ticket, since)
            return notes[ticket.id][0] < ticket.version or (
                has is not None and _is_news(ticket, since) and not has(ticket)
            )

        return sorted(filter(lacks, tickets), key=lambda t: (t.updated, t.id))

    def deliver(self, tickets: Iterable[Ticket], outputs: Iterable[Output], seconds: float = SECONDS) -> list[str]:
        """Tell every output what it has not; a line for each output that failed or took too long.

        An output that fails is not tried with further tickets in this call: it would cost its time limit for each. One
        that refuses a single ticket is.
        """
        known, problems = list(tickets), []
        for output in outputs:
            has = output.has if isinstance(output, Folder) else None
            problem = self._deliver(output, self.waiting(output.name, known, has=has), time.monotonic() + seconds)
            problems += [f"{output.name}: {problem}"] if problem else []
        return problems

    def _deliver(self, output: Output, waiting: list[Ticket], until: float) -> str:
        notes = delivered(self._ledger, output.name) if waiting else {}
        refused: list[str] = []
        for number, ticket in enumerate(waiting):
            left = len(waiting) - number + len(refused)
            if time.monotonic() > until:
                return f"{left} tickets wait, from {ticket.id} on: it is too slow"
            try:
                reference = output.send(ticket, notes.get(ticket.id, (0, ""))[1])
            except (Refused, InputError) as error:  # InputError: a template that fits this ticket not
                refused.append(f"{ticket.id}: {error}")
                if len(refused) >= REFUSED_MAX:
                    return f"{left} tickets wait; it does not take {refused[0]}"
            except Exception as error:  # whatever it is, it is this output's, and holds up no other
                return f"{left} tickets wait, from {ticket.id} on: {reason(error)}"
            else:
                note_delivery(self._ledger, output.name, ticket, reference)
        return f"{len(refused)} tickets wait; it does not take {refused[0]}" if refused else ""


def _is_news(ticket: Ticket, since: str) -> bool:
    return ticket.state != CLOSED or ticket.updated >= since
