"""How the hosts of a run came out of its stages, and moving those together that are quarantined for it.

The shards that ``scripts/fleet`` started together are one run here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from ..findings import Finding
from . import identity, store
from .holding import finding_of
from .models import FindingRow, Host, Run, StageRun, StateChange
from .standing import OUT, QUARANTINED, READY, STAGES, latest


@dataclass(frozen=True)
class Judged:
    """One host that a run let in. before: its state when the run began. result: None while it is in the stage.

    found: what holds of the stage that is judged, nothing while the host is in it. earlier: what holds of the other
    stages that the run let it into. here: false of a host that is not in this stage, or of another shard.
    """

    name: str
    state: str
    before: str
    held: str | None = None
    result: str | None = None
    found: list[Finding] = field(default_factory=list)
    earlier: list[Finding] = field(default_factory=list)
    here: bool = True


def judged(session: Session, stage: str, run_id: int | None) -> list[Judged]:
    """All hosts that this run let into any stage, by name; not those that were released since."""
    runs = shards_of(session, run_id)
    rows = select(StageRun).where(_of(StageRun, runs), StageRun.stage.in_(STAGES)).order_by(StageRun.id)
    ways: dict[int, dict[str, StageRun]] = defaultdict(dict)
    for row in session.scalars(rows):
        ways[row.host_id][row.stage] = row
    before: dict[int, str] = {}
    for change in session.scalars(select(StateChange).where(_of(StateChange, runs)).order_by(StateChange.id)):
        before.setdefault(change.host_id, change.before)
    found: dict[int, dict[str, list[Finding]]] = defaultdict(lambda: defaultdict(list))
    held = select(FindingRow).where(
        FindingRow.cleared.is_(None), FindingRow.status != "ok", FindingRow.stage.in_(STAGES)
    )
    for row_ in session.scalars(held.order_by(FindingRow.id)):
        if row_.host_id in ways:
            found[row_.host_id][row_.stage].append(finding_of(row_))
    known = []
    for host in session.scalars(select(Host).where(Host.name.is_not(None)).order_by(Host.name)):
        through = {name: way for name, way in ways.get(host.id, {}).items() if way.result != "undone"}
        if not through:
            continue
        way = through.get(stage)
        ended = [name for name, one in through.items() if one.result and name != stage]
        state = READY if host.state not in OUT and identity.stands_for_ready(session, host) else host.state
        known.append(
            Judged(
                name=str(host.name),
                state=state,
                before=before.get(host.id, host.state),
                held=host.held,
                result=way.result if way else None,
                found=found[host.id][stage] if way and way.result else [],
                earlier=[finding for name in ended for finding in found[host.id][name]],
                here=way is not None and way.run_id == run_id,
            )
        )
    return known


def shards_of(session: Session, run_id: int | None) -> list[int]:
    """The runs that were started together with this one, and itself; none for None."""
    run = session.get(Run, run_id) if run_id is not None else None
    if run is None or not run.fleet_run:
        return [] if run_id is None else [run_id]
    return list(session.scalars(select(Run.id).filter_by(fleet_run=run.fleet_run)))


def runs_beside(ledger: store.Ledger, run_id: int) -> list[Run]:
    """The runs that were started together with this one, without itself."""
    with ledger._reading() as session:
        ids = [other for other in shards_of(session, run_id) if other != run_id]
        found = list(session.scalars(select(Run).where(Run.id.in_(ids)).order_by(Run.id)))
        session.expunge_all()
        return found


def in_stage(ledger: store.Ledger, stage: str, run_id: int | None) -> list[str]:
    """Who of this run alone is still in this stage."""
    with ledger._reading() as session:
        query = select(Host.name).join(StageRun, StageRun.host_id == Host.id)
        query = query.where(_of(StageRun, [] if run_id is None else [run_id]), Host.name.is_not(None))
        return [str(name) for name in session.scalars(query.where(StageRun.stage == stage, StageRun.result.is_(None)))]


def quarantine(ledger: store.Ledger, session: Session, why: Mapping[str, str]) -> None:
    """Move these hosts to quarantine. why: by name, in a line."""
    at = store.now()
    for host in ledger._hosts(session, why):
        ledger._move(session, host, QUARANTINED, why[str(host.name)], at)


def last_ways(ledger: store.Ledger, names: Iterable[str], stages: Iterable[str]) -> list[tuple[str, str, Run]]:
    """(name, stage, run): of these hosts the stages in which findings hold, and the run that came out with them."""
    found = []
    with ledger._reading() as session:
        hosts = {host.id: host for host in ledger._hosts(session, names)}
        query = select(FindingRow.host_id, FindingRow.stage).where(
            FindingRow.cleared.is_(None), FindingRow.status != "ok", FindingRow.stage.in_(list(stages))
        )
        for host_id, stage in session.execute(query.distinct()):
            way = latest(session, host_id, stage) if host_id in hosts else None
            run = session.get(Run, way.run_id) if way is not None and way.run_id else None
            if run is not None:
                session.expunge(run)
                found.append((str(hosts[host_id].name), stage, run))
    return found


def _of(model: type[StageRun] | type[StateChange], runs: list[int]) -> ColumnElement[bool]:
    return model.run_id.in_(runs) if runs else model.run_id.is_(None)
