"""Open tickets in the fleet report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from ..findings import ACTIONS
from .model import OPEN, Ticket


def add_tickets(report: dict[str, Any], tickets: Iterable[Ticket], due: Mapping[str, str] | None = None) -> None:
    """Tell in a report of ``report.build`` which tickets are open, and what is due by them.

    due: by name the action of ``plan.due``. The action of a host that is not ready is that, or the highest of its open
    tickets: their actions never fall.
    Each host gets ``tickets``: a list of {id, action, part kind}; the report ``tickets``: {open, by_action}.
    """
    still_open = [ticket for ticket in tickets if ticket.state == OPEN]
    of_host: dict[str, list[dict[str, str]]] = {}
    for ticket in still_open:
        told = {"id": ticket.id, "action": ticket.action, "kind": ticket.cause.kind}
        of_host.setdefault(ticket.host, []).append(told)
    for host in report["hosts"]:
        host["tickets"] = of_host.get(host["name"], [])
        orders = [ticket["action"] for ticket in host["tickets"]] + [(due or {}).get(host["name"], "none")]
        if host.get("verdict") != "ready" and (highest := max(orders, key=ACTIONS.index)) != "none":
            host["action"] = highest
    by_action = Counter(ticket.action for ticket in still_open)
    report["tickets"] = {"open": len(still_open), "by_action": dict(sorted(by_action.items()))}
