"""The past of every host as the ledger has it, and the failures in it. Read-only."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import select

from ..findings import Finding, highest_action
from ..ledger.models import FindingRow, Host, Run, StageRun, StateChange
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
    id: int
    playbook: str
    started: datetime
    ends: list[StageEnd] = field(default_factory=list)


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


def read_past(ledger: Ledger) -> Past:
    """Everything that a policy is tried on. FirstlightError when the database cannot be used."""
    with ledger._reading() as session:
        ready: dict[int, datetime] = {}
        for host_id, at in session.execute(
            select(StateChange.host_id, StateChange.at).where(StateChange.after == "ready").order_by(StateChange.id)
        ):
            ready[host_id] = datetime.fromisoformat(at)
        hosts = {
            host.id: PastHost(
                id=host.id,
                label=host.name or host.service_tag or f"host {host.id}",
                service_tag=host.service_tag,
                planned=host.name is not None,
                state=host.state,
                ready_since=ready.get(host.id) if host.state == "ready" else None,
            )
            for host in session.scalars(select(Host).order_by(Host.id))
        }
        for row in session.scalars(select(FindingRow).where(FindingRow.status != "ok").order_by(FindingRow.id)):
            hosts[row.host_id].seen.append(_seen(row))
        runs = {
            run.id: PastRun(run.id, run.playbook, datetime.fromisoformat(run.started))
            for run in session.scalars(select(Run).order_by(Run.id))
        }
        ends = select(StageRun).where(StageRun.result.in_(("passed", "failed")), StageRun.ended.is_not(None))
        for stage in session.scalars(ends.order_by(StageRun.id)):
            if stage.run_id in runs and stage.ended and stage.result:
                runs[stage.run_id].ends.append(
                    StageEnd(stage.host_id, stage.stage, datetime.fromisoformat(stage.ended), stage.result)
                )
        return Past(hosts, list(runs.values()))


def _seen(row: FindingRow) -> Seen:
    finding = Finding(row.check, row.status, row.symptom, row.locator, row.evidence, row.action)
    first, last = datetime.fromisoformat(row.first_seen), datetime.fromisoformat(row.last_seen)
    return Seen(row.stage, finding, first, last, datetime.fromisoformat(row.cleared) if row.cleared else None)


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
