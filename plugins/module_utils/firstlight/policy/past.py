"""The past of every host as the ledger has it, and the failures in it. Read-only."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import select

from ..errors import FirstlightError
from ..findings import Finding, highest_action, shorten
from ..ledger.models import FindingRow, Host, Run, StageRun, StateChange
from ..ledger.standing import READY, STAGES
from ..ledger.store import Ledger
from .causes import UNSEEN, group, kind_of
from .grade import Failure


@dataclass(frozen=True)
class Seen:
    """A finding and from when to when it was seen. cleared: when its stage was gone through without it."""

    stage: str
    finding: Finding
    first_seen: datetime
    last_seen: datetime
    cleared: datetime | None = None


@dataclass(frozen=True)
class StageEnd:
    """How one host came out of one stage of a run: passed or failed. found: what was found there."""

    host: int
    stage: str
    ended: datetime
    result: str


@dataclass(frozen=True)
class PastRun:
    """ends: also of hosts that were in a stage twice, in order. let_in: by host since when the run had it.

    together: the same for the shards of one fleet run.
    """

    id: int
    playbook: str
    started: datetime
    ends: list[StageEnd] = field(default_factory=list)
    let_in: dict[int, datetime] = field(default_factory=dict)
    together: str = ""


@dataclass(frozen=True)
class Change:
    """A host came from one state to another. run: None where no run did it."""

    host: int
    run: int | None
    at: datetime
    before: str
    after: str
    why: str


@dataclass(frozen=True)
class PastHost:
    """One machine. label: its name, else its service tag. ready_since: None where it is not ready now."""

    id: int
    label: str
    service_tag: str | None
    planned: bool
    state: str
    ready_since: datetime | None
    seen: list[Seen] = field(default_factory=list)


@dataclass(frozen=True)
class Past:
    hosts: dict[int, PastHost]
    runs: list[PastRun]
    changes: list[Change] = field(default_factory=list)


@contextmanager
def whole(table: str, row: int) -> Iterator[None]:
    """FirstlightError where what is read of a row makes no sense: it was damaged."""
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:
        said = f"there is no host {error}" if isinstance(error, KeyError) else shorten(str(error), 100)
        raise FirstlightError(f"row {row} of the ledger's table {table} is damaged: {said}") from None


def read_past(ledger: Ledger) -> Past:
    """Everything that a policy is tried on. FirstlightError when the database cannot be used, or a row is damaged."""
    with ledger._reading() as session:
        changes = []
        ready: dict[int, datetime] = {}
        for row in session.scalars(select(StateChange).order_by(StateChange.id)):
            with whole("state_change", row.id):
                at = time(row.at)
            changes.append(Change(row.host_id, row.run_id, at, row.before, row.after, row.why))
            if row.after == READY:
                ready[row.host_id] = at
        hosts = {
            host.id: PastHost(
                id=host.id,
                label=host.name or host.service_tag or f"host {host.id}",
                service_tag=host.service_tag,
                planned=host.name is not None,
                state=host.state,
                ready_since=ready.get(host.id) if host.state == READY else None,
            )
            for host in session.scalars(select(Host).order_by(Host.id))
        }
        for found in session.scalars(select(FindingRow).where(FindingRow.status != "ok").order_by(FindingRow.id)):
            with whole("finding", found.id):
                hosts[found.host_id].seen.append(_seen(found))
        runs = {}
        for run in session.scalars(select(Run).order_by(Run.id)):
            with whole("run", run.id):
                runs[run.id] = PastRun(run.id, run.playbook, time(run.started), together=run.fleet_run or "")
        ways = select(StageRun).where(StageRun.run_id.is_not(None), StageRun.stage.in_(STAGES))
        for stage in session.scalars(ways.order_by(StageRun.id)):
            if stage.run_id in runs and stage.result != "undone":
                with whole("stage_run", stage.id):
                    _add(runs[stage.run_id], hosts[stage.host_id].id, stage)
        return Past(hosts, list(runs.values()), [change for change in changes if change.host in hosts])


def _add(run: PastRun, host: int, row: StageRun) -> None:
    run.let_in.setdefault(host, time(row.started))
    if row.ended and row.result in ("passed", "failed"):
        run.ends.append(StageEnd(host, row.stage, time(row.ended), row.result))


def _seen(row: FindingRow) -> Seen:
    finding = Finding(row.check, row.status, row.symptom, row.locator, row.evidence, row.action)
    cleared = time(row.cleared) if row.cleared else None
    return Seen(row.stage, finding, time(row.first_seen), time(row.last_seen), cleared)


def time(text: str) -> datetime:
    """ValueError where it is none, or has no zone: it could not be compared to others."""
    at = datetime.fromisoformat(text)
    if at.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return at


def found_at(seen: Iterable[Seen], stage: str, at: datetime) -> list[Finding]:
    """What a host was found with when it came out of a stage."""
    return [s.finding for s in seen if s.stage == stage and s.first_seen <= at <= s.last_seen]


def passes(runs: Iterable[PastRun]) -> dict[int, dict[str, list[datetime]]]:
    """{host: {stage: when it passed it}}, in order of time."""
    passed: dict[int, dict[str, list[datetime]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        for end in run.ends:
            if end.result == "passed":
                passed[end.host][end.stage].append(end.ended)
    for stages in passed.values():
        for times in stages.values():
            times.sort()
    return passed


def failures(seen: Iterable[Seen], passed: Mapping[str, Sequence[datetime]]) -> list[Failure]:
    """The failures of one host, oldest first.

    One lasts until its stage was passed: while a host is not reached, its other findings are cleared, and nothing is
    mended by that. What fails of one kind meanwhile is the same failure.
    """
    by_kind: dict[str, list[tuple[Seen, datetime | None]]] = defaultdict(list)
    for one in seen:
        if one.finding.status in ("fail", "unknown"):
            by_kind[kind_of(one.finding)].append((one, _ended(one, passed.get(one.stage, ()))))
    found: list[Failure] = []
    for kind, rows in by_kind.items():
        for together in _overlapping(rows):
            of = {id(one.finding): (one, ended) for one, ended in together}
            for cause, findings in group([one.finding for one, _ in together]).items():
                mine = [of[id(finding)] for finding in findings]
                ends = [ended for _, ended in mine]
                found.append(
                    Failure(
                        cause=cause,
                        began=min(one.first_seen for one, _ in mine),
                        ended=None if None in ends else max(end for end in ends if end is not None),
                        action=highest_action(findings),
                        certain=kind != UNSEEN,
                    )
                )
    return sorted(found, key=lambda f: (f.began, f.cause))


def _ended(one: Seen, passed: Sequence[datetime]) -> datetime | None:
    if one.cleared is None:
        return None
    place = bisect_left(passed, one.cleared)
    return passed[place] if place < len(passed) else None


def _overlapping(rows: list[tuple[Seen, datetime | None]]) -> list[list[tuple[Seen, datetime | None]]]:
    rows.sort(key=lambda row: row[0].first_seen)
    clusters: list[list[tuple[Seen, datetime | None]]] = []
    until: datetime | None = None
    for row in rows:
        if clusters and (until is None or row[0].first_seen < until):
            clusters[-1].append(row)
            until = None if until is None or row[1] is None else max(until, row[1])
        else:
            clusters.append([row])
            until = row[1]
    return clusters
