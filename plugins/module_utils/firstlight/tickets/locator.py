"""The locator light of hosts with tickets: on while somebody has to go there, out with the last such ticket."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from ..bmc.control import Change
from ..bmc.errors import BmcError, Refused
from ..ledger.store import Ledger
from ..ledger.tickets import note_delivery, tickets
from .model import OPEN, Ticket
from .outbox import Outbox
from .words import needs_visit

NAME = "locator"  # under which the ledger notes for which version of a ticket a light was switched
SHOWN = 5
Switch = Callable[[Mapping[str, bool]], Mapping[str, Change | BmcError]]


def set_lights(ledger: Ledger, names: Collection[str], switch: Switch) -> list[str]:
    """Switch the lights of these hosts as their tickets ask for; a line for people about those that were not.

    switch: from {host: lit} to what came of each. A BMC that does not answer is asked again by the next run; one that
    has no light is not. Whoever switches a light by hand is left alone until a ticket changes.
    """
    known = tickets(ledger)
    news = [ticket for ticket in Outbox(ledger).waiting(NAME, known) if ticket.host in names]
    wanted = lights(known, news)
    results = switch(wanted) if wanted else {}
    failed: dict[str, str] = {}
    for ticket in news:
        result = results.get(ticket.host)
        if isinstance(result, BmcError):
            failed[ticket.host] = result.evidence
            if not isinstance(result, Refused):
                continue
        elif ticket.host in wanted and result is None:
            continue
        note_delivery(ledger, NAME, ticket, "")
    if not failed:
        return []
    named = ", ".join(sorted(failed)[:SHOWN]) + (f" and {len(failed) - SHOWN} more" if len(failed) > SHOWN else "")
    first = failed[min(failed)]
    return [f"the locator light of {named} was not switched: {first}"]


def lights(known: Iterable[Ticket], news: Iterable[Ticket]) -> dict[str, bool]:
    """By host whether its light is to be on; only hosts with news of a ticket for which somebody goes there."""
    lit = {ticket.host for ticket in known if ticket.state == OPEN and needs_visit(ticket)}
    return {ticket.host: ticket.host in lit for ticket in news if needs_visit(ticket)}
