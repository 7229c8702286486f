"""Who is quarantined at the end of a stage, decided for all its hosts together, and when a run stops instead.

A host that fails is not quarantined by itself: when too many fail at once it is probably not the hosts, and nobody is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from .errors import FirstlightError
from .findings import Finding, blocking
from .ledger.judged import in_stage, judged, last_ways, quarantine, runs_beside
from .ledger.models import Run
from .ledger.standing import READY, STAGES
from .ledger.store import Ledger
from .policy.brake import Stop
from .policy.decide import decide
from .policy.settings import Policy

BRAKED = "the brake stops the run: "  # how it begins in a run's message, after the stage


class Braked(FirstlightError):
    """The run must stop: in one line why."""


@dataclass(frozen=True)
class Settled:
    """What was decided at the end of a stage. quarantined: why, by name. stop: why nobody was."""

    quarantined: dict[str, str]
    stop: Stop | None = None
    passed_over: Stop | None = None  # it would have stopped, with the brake on

    def line(self) -> str:
        """Why the run stops; "" where it goes on."""
        return f"{BRAKED}{self.stop.why}" if self.stop else ""


def settle(ledger: Ledger, policy: Policy, stage: str, *, brake_is_on: bool = True) -> Settled:
    """Decide for the hosts that this run let into the stage; again for the same ones changes nothing.

    The brake counts whom this run has let in and found ill so far, in all its stages, and with it the other shards of a
    fleet run; not who was out of use before. Counted and moved as one: of two shards the second sees the first.
    """
    return _settle(ledger, policy, stage, ledger.run_id, None, brake_is_on)


def all_are_out(ledger: Ledger, stage: str) -> bool:
    """Whether none of the hosts that this run let into the stage is in it any more."""
    return not in_stage(ledger, stage, ledger.run_id)


def settle_left(ledger: Ledger, policy: Policy, names: Collection[str]) -> dict[str, str]:
    """Make good what runs that were killed left undecided of these hosts; returns who was quarantined, and why.

    Such a run that would have been stopped by the brake is ended as broken by it, and nobody is quarantined for it.
    """
    ready = [name for name, state in ledger.states().items() if state == READY and name in set(names)]
    left: dict[tuple[int, str], Run] = {}
    for _, stage, run in last_ways(ledger, ready, STAGES):
        if run.id != ledger.run_id and (run.ended is None or run.outcome == "stopped") and not _stage_of_stop(run):
            left[run.id, stage] = run
    moved: dict[str, str] = {}
    for (run_id, stage), run in left.items():
        beside = (said for one in runs_beside(ledger, run_id) if (said := _stop_of(one)[1]))
        if said := next(beside, ""):
            ledger.end_run(run_id, run.outcome or "broken", f"{stage}: {said}")
            continue
        settled = _settle(ledger, policy, stage, run_id, names, brake_is_on=True)
        moved |= settled.quarantined
        if settled.stop:
            ledger.end_run(run_id, run.outcome or "broken", f"{stage}: {settled.line()}")
    return moved


def kept_by_brake(ledger: Ledger, names: Iterable[str]) -> set[str]:
    """Those of ``names`` whose last way through a stage was in a run that the brake stopped there."""
    return {name for name, stage, run in last_ways(ledger, names, STAGES) if _stage_of_stop(run) == stage}


def _stage_of_stop(run: Run) -> str:
    """The stage at which the brake stopped the run, "" where it did not."""
    return _stop_of(run)[0]


def _stop_of(run: Run) -> tuple[str, str]:
    """The stage at which the brake stopped the run, and its words; both "" where it did not."""
    stage, _, said = run.message.partition(": ")
    return (stage, said) if said.startswith(BRAKED) else ("", "")


def _settle(
    ledger: Ledger, policy: Policy, stage: str, run_id: int | None, names: Collection[str] | None, brake_is_on: bool
) -> Settled:
    """names: who may be moved, all by default."""
    with ledger._transaction() as session:
        decided = decide(policy, stage, judged(session, stage, run_id))
        if decided.stop and brake_is_on:
            return Settled({}, decided.stop)
        moved = {
            name: f"{stage}: {_worst(kept).symptom}"
            for name, kept in decided.out.items()
            if names is None or name in names
        }
        if moved:
            quarantine(ledger, session, moved)
    return Settled(moved, None, decided.stop)


def _worst(findings: list[Finding]) -> Finding:
    return next(iter(blocking(findings)), findings[0])
