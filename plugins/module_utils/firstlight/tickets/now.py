"""The hosts that a plan of tickets looks at, as the ledger has them now. Read-only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, func, or_, select
from sqlalchemy.orm import Session

from ..findings import Finding
from ..ledger.models import FindingRow, Host, StageRun, TicketRow
from ..ledger.store import Ledger
from ..policy.grade import grade
from ..policy.past import Seen, failures
from ..policy.settings import Policy
from .model import Place
from .plan import Held, HostNow

SLACK_DAYS = 30  # a failure lasts until its stage is passed, which may be long after its finding was seen last


def hosts_now(ledger: Ledger, policy: Policy, now: datetime, names: Collection[str] | None = None) -> list[HostNow]:
    """Hosts against which something is held, or that have an open ticket; names: only those of them.

    The past is read as far back as the policy looks. FirstlightError when the database cannot be used.
    """
    days = max(policy.escalate_days, policy.lemon_days) + SLACK_DAYS
    since = (now - timedelta(days=days)).isoformat(timespec="milliseconds")
    with ledger._reading() as session:
        known = {h.id: h for h in session.scalars(select(Host).where(Host.name.is_not(None)).order_by(Host.id))}
        of_tickets = set(session.scalars(select(TicketRow.host_id).where(TicketRow.closed.is_(None))))
        named_so = set(session.scalars(select(FindingRow.host_id).where(_holds())))
        wanted = [h for h in known.values() if h.id in of_tickets | named_so and (names is None or h.name in names)]
        ids = [host.id for host in wanted]
        results, seen, passed = _results(session, ids), _seen(session, ids, since), _passed(session, ids, since)
        return [_host(policy, now, host, results[host.id], seen[host.id], passed[host.id]) for host in wanted]


def _host(
    policy: Policy,
    now: datetime,
    host: Host,
    results: dict[str, str | None],
    seen: list[Seen],
    passed: dict[str, list[datetime]],
) -> HostNow:
    failed = failures(seen, passed)
    return HostNow(
        name=str(host.name),
        service_tag=host.service_tag,
        place=Place(host.site, host.rack, host.unit, host.profile),
        held=tuple(Held.of(one.finding, one.stage) for one in seen if one.cleared is None),
        results=results,
        earlier=tuple(failure for failure in failed if failure.ended is not None),
        grade=grade(policy, failed, None, now),
    )


def _holds() -> ColumnElement[bool]:
    return FindingRow.cleared.is_(None) & (FindingRow.status != "ok")


def _results(session: Session, ids: Iterable[int]) -> dict[int, dict[str, str | None]]:
    """By host and stage how its last way through it ended; None while it goes on."""
    last = select(func.max(StageRun.id)).where(StageRun.host_id.in_(ids)).group_by(StageRun.host_id, StageRun.stage)
    found: dict[int, dict[str, str | None]] = defaultdict(dict)
    for row in session.scalars(select(StageRun).where(StageRun.id.in_(last))):
        found[row.host_id][row.stage] = row.result
    return found


def _seen(session: Session, ids: Iterable[int], since: str) -> dict[int, list[Seen]]:
    query = select(FindingRow).where(FindingRow.host_id.in_(ids), FindingRow.status != "ok").order_by(FindingRow.id)
    found: dict[int, list[Seen]] = defaultdict(list)
    for row in session.scalars(query.where(or_(FindingRow.cleared.is_(None), FindingRow.cleared >= since))):
        finding = Finding(row.check, row.status, row.symptom, row.locator, row.evidence, row.action)
        first, last = datetime.fromisoformat(row.first_seen), datetime.fromisoformat(row.last_seen)
        cleared = datetime.fromisoformat(row.cleared) if row.cleared else None
        found[row.host_id].append(Seen(row.stage, finding, first, last, cleared))
    return found


def _passed(session: Session, ids: Iterable[int], since: str) -> dict[int, dict[str, list[datetime]]]:
    """By host and stage when it was passed, in order of time."""
    query = select(StageRun.host_id, StageRun.stage, StageRun.ended).order_by(StageRun.ended)
    found: dict[int, dict[str, list[datetime]]] = defaultdict(lambda: defaultdict(list))
    query = query.where(StageRun.host_id.in_(ids), StageRun.result == "passed", StageRun.ended >= since)
    for host, stage, ended in session.execute(query):
        if ended:
            found[host][stage].append(datetime.fromisoformat(ended))
    return found
