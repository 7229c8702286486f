"""Who is golden and who is a lemon now, of the whole fleet: what the inventory's groups of these names hold.

Reads of the past no more than the policy looks at, however long it is: an inventory is read often.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import exists, func, or_, select
from sqlalchemy.orm import Session, aliased

from ..findings import Finding
from ..ledger.models import FindingRow, Host, StageRun, StateChange
from ..ledger.standing import READY
from ..ledger.store import Ledger
from .grade import grade
from .past import Seen, failures, time, whole
from .settings import Policy

_FINDING = ("check", "status", "symptom", "locator", "evidence", "action")


def grades(ledger: Ledger, policy: Policy, now: datetime | None = None) -> dict[str, str]:
    """By name golden or lemon, of those that are one. Of a ledger of any release, as ``Ledger.states``."""
    at = now or datetime.now(UTC)
    since = (at - timedelta(days=max(policy.lemon_days, policy.golden_days))).isoformat(timespec="milliseconds")
    with ledger._reading(old_too=True) as session:
        hosts = session.execute(select(Host.id, Host.name, Host.state).where(Host.name.is_not(None))).all()
        seen, passed, ready = _seen(session, since), _passed(session, since), _ready_since(session)
    found = {}
    for host, name, state in hosts:
        failed = failures(seen[host], passed[host]) if host in seen else []
        graded = grade(policy, failed, ready.get(host) if state == READY else None, at).grade
        if graded:
            found[str(name)] = graded
    return found


def _matters(since: str) -> Any:
    """Findings that hold, or held lately; a failure lasts until its stage is passed."""
    way = aliased(StageRun)
    mended = exists().where(
        way.host_id == FindingRow.host_id,
        way.stage == FindingRow.stage,
        way.result == "passed",
        way.ended >= FindingRow.cleared,
        way.ended < since,
    )
    said_no = FindingRow.status.in_(("fail", "unknown"))
    return said_no & or_(FindingRow.cleared.is_(None), FindingRow.cleared >= since, ~mended)


def _seen(session: Session, since: str) -> dict[int, list[Seen]]:
    columns = [getattr(FindingRow, name) for name in _FINDING]
    times = (FindingRow.first_seen, FindingRow.last_seen, FindingRow.cleared)
    query = select(FindingRow.id, FindingRow.host_id, FindingRow.stage, *times, *columns).where(_matters(since))
    found: dict[int, list[Seen]] = defaultdict(list)
    for row, host, stage, first, last, cleared, *finding in session.execute(query.order_by(FindingRow.id)):
        with whole("finding", row):
            gone = time(cleared) if cleared else None
            found[host].append(Seen(stage, Finding(*finding), time(first), time(last), gone))
    return found


def _passed(session: Session, since: str) -> dict[int, dict[str, list[datetime]]]:
    """By host and stage when it was passed, of those that have such a finding."""
    concerned = exists().where(
        FindingRow.host_id == StageRun.host_id, FindingRow.stage == StageRun.stage, _matters(since)
    )
    query = select(StageRun.id, StageRun.host_id, StageRun.stage, StageRun.ended).where(
        StageRun.result == "passed", StageRun.ended >= since, concerned
    )
    found: dict[int, dict[str, list[datetime]]] = defaultdict(lambda: defaultdict(list))
    for row, host, stage, ended in session.execute(query.order_by(StageRun.ended)):
        with whole("stage_run", row):
            found[host][stage].append(time(str(ended)))
    return found


def _ready_since(session: Session) -> dict[int, datetime]:
    last = func.max(StateChange.at)
    query = select(StateChange.host_id, last, func.max(StateChange.id)).where(StateChange.after == READY)
    found = {}
    for host, at, row in session.execute(query.group_by(StateChange.host_id)):
        with whole("state_change", row):
            found[host] = time(at)
    return found
