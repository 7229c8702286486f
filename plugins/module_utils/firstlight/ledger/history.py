"""What the ledger remembers over weeks, as plain data: how machines came up, what failed on them and how often.

Read-only. The tables grow with every run, so that what grows is counted by the database, or read of some weeks only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeVar

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from .models import Deed, FindingRow, Host, StageRun, StateChange
from .store import Ledger

_Row = TypeVar("_Row")
FAILURES_MAX = 200  # of one host, the latest: a finding that comes and goes at each run


@dataclass(frozen=True)
class Failure:
    """One finding that said no (fail or unknown), from when it came to when it went. Times: ISO 8601, UTC.

    cleared: None while it holds.
    """

    stage: str
    symptom: str
    locator: str
    action: str
    first_seen: str
    last_seen: str
    cleared: str | None = None


@dataclass(frozen=True)
class Change:
    """One change of state."""

    at: str
    before: str
    after: str
    why: str = ""


@dataclass(frozen=True)
class HostHistory:
    """One machine. name: None where its name went to another one, which took its place.

    began: when its first stage began since it was last released; None where none did.
    passed: {stage: when it was first passed since then}; a stage that was only passed before is not in it.
    failures: of the weeks asked for, and those that hold; the latest FAILURES_MAX, oldest first.
    changes: all, oldest first. last_deed: the last destructive step (at, what).
    """

    service_tag: str | None
    name: str | None
    state: str
    began: str | None = None
    passed: dict[str, str] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    last_deed: tuple[str, str] | None = None


def weeks_before(at: str, weeks: int) -> str:
    """The Monday, 00:00 UTC, from which these weeks count; the week of ``at`` is the last of them."""
    day = datetime.fromisoformat(at).replace(hour=0, minute=0, second=0, microsecond=0)
    return (day - timedelta(days=day.weekday(), weeks=weeks - 1)).isoformat(timespec="milliseconds")


def history(ledger: Ledger, since: str) -> list[HostHistory]:
    """Every machine that the ledger knows, in the order in which it came to know them.

    since: failures that were last seen before it are left out. FirstlightError when the database cannot be used.
    """
    with ledger._reading() as session:
        began, passed = _bring_up(session)
        failures, changes, deeds = _failures(session, since), _changes(session), _last_deeds(session)
        return [
            HostHistory(
                service_tag=host.service_tag,
                name=host.name,
                state=host.state,
                began=began.get(host.id),
                passed=passed.get(host.id, {}),
                failures=failures.get(host.id, [])[-FAILURES_MAX:],
                changes=changes.get(host.id, []),
                last_deed=deeds.get(host.id),
            )
            for host in session.scalars(select(Host).order_by(Host.id))
        ]


def _bring_up(session: Session) -> tuple[dict[int, str], dict[int, dict[str, str]]]:
    """By host when its first stage began, and when each stage was first passed, since it was last released."""
    released = (
        select(StageRun.host_id, func.max(StageRun.id).label("id"))
        .where(StageRun.result == "undone")
        .group_by(StageRun.host_id)
        .subquery()
    )
    since_then = select(StageRun.host_id, StageRun.stage, func.min(StageRun.started), func.min(StageRun.ended))
    since_then = since_then.outerjoin(released, released.c.host_id == StageRun.host_id)
    since_then = since_then.where(or_(released.c.id.is_(None), StageRun.id > released.c.id))
    since_then = since_then.group_by(StageRun.host_id, StageRun.stage)
    began: dict[int, str] = {}
    for host, _stage, started, _ended in session.execute(since_then):
        began[host] = min(started, began.get(host, started))
    passed: dict[int, dict[str, str]] = {}
    for host, stage, _started, ended in session.execute(since_then.where(StageRun.result == "passed")):
        if ended:
            passed.setdefault(host, {})[stage] = ended
    return began, passed


def _failures(session: Session, since: str) -> dict[int, list[Failure]]:
    query = select(FindingRow).where(FindingRow.status.in_(("fail", "unknown")))
    query = query.where(or_(FindingRow.cleared.is_(None), FindingRow.last_seen >= since)).order_by(FindingRow.id)
    fields = ("stage", "symptom", "locator", "action", "first_seen", "last_seen", "cleared")
    return _by_host((row.host_id, Failure(**{f: getattr(row, f) for f in fields})) for row in session.scalars(query))


def _changes(session: Session) -> dict[int, list[Change]]:
    query = select(StateChange).order_by(StateChange.id)
    return _by_host((row.host_id, Change(row.at, row.before, row.after, row.why)) for row in session.scalars(query))


def _last_deeds(session: Session) -> dict[int, tuple[str, str]]:
    last = select(func.max(Deed.id)).group_by(Deed.host_id)
    return {row.host_id: (row.at, row.what) for row in session.scalars(select(Deed).where(Deed.id.in_(last)))}


def _by_host(rows: Iterable[tuple[int, _Row]]) -> dict[int, list[_Row]]:
    found: dict[int, list[_Row]] = {}
    for host, row in rows:
        found.setdefault(host, []).append(row)
    return found
