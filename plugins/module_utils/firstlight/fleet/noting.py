"""What the events of a shard tell at its end, and the ledger does not have: plugins inside a run could not note it.

That is: a run that was killed or crashed, and whom it left in a stage; and who failed, or was not reached, outside of
every stage. It is told by warnings: the end of a process is no fault of its hosts, and stages judge who is ready.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from ..errors import InputError
from ..findings import Finding, shorten
from ..ledger import holding
from ..ledger.claim import claims_of
from ..ledger.models import Host, Run, StageRun
from ..ledger.store import TEXT_MAX, Ledger, now
from ..ledger.where import find_ledger
from ..sshreason import judge_unreachable
from . import locks
from .events import Failure, Progress
from .runs import Shard

CHECK = "fleet_run"  # of these findings
ENDED_EARLY, TASK_FAILED = "run.ended_early", "run.task_failed"


@dataclass(frozen=True)
class Way:
    """What the ledger has of a host in this run. inside: the stage that it is still in. failed: it failed in one."""

    inside: str = ""
    failed: bool = False


def untold(progress: Progress, ways: Mapping[str, Way], early: str) -> dict[str, tuple[str, Finding]]:
    """By host the stage and the finding that the ledger lacks; the stage is holding.RUN where there was none.

    ways: of the hosts that may be spoken of. early: how the run ended before its time, "" where it did not.
    """
    lost = progress.lost()
    found = {}
    for name, way in ways.items():
        if name in lost and not way.failed:
            found[name] = (way.inside or holding.RUN, _failure(lost[name]))
        elif way.inside and early:
            found[name] = (way.inside, Finding(CHECK, "warn", ENDED_EARLY, "", early, "retry"))
    return found


def _failure(failure: Failure) -> Finding:
    if failure.unreachable:
        reason = judge_unreachable(failure.said)
        return Finding(CHECK, "warn", reason.symptom, "", f"{failure.task}: {reason.evidence}", reason.action)
    return Finding(CHECK, "warn", TASK_FAILED, "", f"{failure.task}: {failure.said}", "retry")


def note_end(shard: Shard, why: str, *, asked: bool = False) -> bool:
    """Note how its last try ended, once; whether its run in the ledger had not been closed with a reason.

    why: what ended its process, if that was before its time; asked: somebody wanted it. Only for a shard that nobody
    works on. Hosts that another run has, or has had since, are left alone. FirstlightError when the ledger cannot be
    used; the next call tries again.
    """
    if shard.run.about["check"] or locks.holder(shard.playbook_lock) or shard.is_noted():
        return False
    number = shard.ledger_run()
    try:
        url = find_ledger(None, Path(shard.run.about["inventory"]))
    except InputError:
        if number is None:  # of a playbook that has no stage, at a site that has no ledger yet
            return False
        raise
    ended = _note(Ledger(url, number, create=False), shard, _busy(url, shard.hosts), why, asked)
    shard.note()
    return ended


def _busy(url: str, names: Collection[str]) -> set[str]:
    claims = claims_of(url)
    return claims.held(names) if claims else set()


def _note(ledger: Ledger, shard: Shard, busy: Collection[str], why: str, asked: bool) -> bool:
    saved = shard.saved()
    progress, at = Progress.from_dict(saved), now()
    last = f"; last task: {progress.where()}" if progress.where() else ""
    said = f"fleet run {shard.run.name}, shard {shard.name}: {why}{last}"
    with ledger._transaction() as session:
        run = session.get(Run, ledger.run_id) if ledger.run_id else None
        hosts = {str(h.name): h for h in ledger._hosts(session, shard.hosts) if h.name not in busy}
        ways = _ways(session, hosts, ledger.run_id, str(saved.get("started") or ""))
        # Ctrl-C, by which the kernel ends it when its driver was killed, closes the run and says no reason
        early = run is not None and (run.ended is None or (run.outcome == "stopped" and not run.message and not asked))
        found = untold(progress, ways, said if early and not (asked or progress.finished) else "")
        for name, (stage, finding) in found.items():
            holding.add(session, hosts[name], stage, finding, at, ledger.run_id)
        for name in set(ways) - set(found) if progress.finished else ():
            holding.replace(session, hosts[name], holding.RUN, [], at, ledger.run_id)
        if run is not None and early:
            inside = sum(bool(way.inside) for way in ways.values())
            run.ended, run.outcome = run.ended or at, run.outcome or "stopped"
            run.message = shorten(f"{said}; {inside} hosts were in a stage" if inside else said, TEXT_MAX)
    return early


def _ways(session: Session, hosts: Mapping[str, Host], run_id: int | None, since: str) -> dict[str, Way]:
    """Of each host in this run, but for those that another run has let into a stage since it began."""
    ids = [host.id for host in hosts.values()]
    last = select(func.max(StageRun.id)).where(StageRun.host_id.in_(ids)).group_by(StageRun.host_id)
    rows = {row.host_id: row for row in session.scalars(select(StageRun).where(StageRun.id.in_(last)))}
    ways = {}
    for name, host in hosts.items():
        row = rows.get(host.id)
        if row is None or row.run_id != run_id or run_id is None:
            if row is None or row.started < since:
                ways[name] = Way()
        else:
            ways[name] = Way(row.stage if row.result is None else "", row.result == "failed")
    return ways
