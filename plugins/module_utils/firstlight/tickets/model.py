"""A ticket: one cause on one host, from when it was opened to when it was closed."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from ..findings import ACTIONS, Finding
from ..policy.causes import Cause

OPEN, CLOSED = "open", "closed"
UPDATES_MAX = 200  # of one ticket, the latest: a cause that flaps for months


@dataclass(frozen=True)
class Update:
    """One change. at: ISO 8601, UTC. what: one line."""

    at: str
    what: str


@dataclass(frozen=True)
class Place:
    """Where a host stands, as the fleet file has it."""

    site: str = ""
    rack: str = ""
    unit: int | None = None
    profile: str = ""


@dataclass(frozen=True)
class Ticket:
    """One repair order.

    id: TAG-KIND-NUMBER, never changes. host: its name. service_tag: None until the BMC tells it. cause: which part, as
    far as it is known by now. action: the highest that was due since it was opened. stages: those whose checks must
    be passed for it to be closed. findings: as they were at the last change. version: grows with each change.
    """

    id: str
    host: str
    service_tag: str | None
    place: Place
    cause: Cause
    state: str
    action: str
    findings: tuple[Finding, ...]
    stages: tuple[str, ...]
    opened: str
    updated: str
    why: str = ""
    version: int = 1
    history: tuple[Update, ...] = ()

    def changed(self, at: str, what: str, **values: Any) -> Ticket:
        """The same ticket after one change."""
        history = (*self.history, Update(at, what))[-UPDATES_MAX:]
        return replace(self, updated=at, version=self.version + 1, history=history, **values)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Ticket:
        """Read one back; ValueError, KeyError or TypeError when it is none."""
        values = {
            **data,
            "place": Place(**data["place"]),
            "cause": Cause(**data["cause"]),
            "findings": tuple(Finding.from_dict(f) for f in data["findings"]),
            "stages": tuple(map(str, data["stages"])),
            "history": tuple(Update(**u) for u in data["history"]),
        }
        ticket = cls(**values)
        if ticket.state not in (OPEN, CLOSED) or ticket.action not in ACTIONS:
            raise ValueError(f"{ticket.id} has state {ticket.state!r} and action {ticket.action!r}")
        return ticket
