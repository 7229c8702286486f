"""The stages of the past decided once more, by another policy: as in runs, see decide.py."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from ..findings import ACTIONS, Finding
from ..ledger.judged import Judged
from ..ledger.standing import OUT, QUARANTINED, READY, STAGES
from .decide import decide
from .past import Change, Past, PastHost, PastRun, StageEnd, found_at
from .settings import Policy

_CHANGE, _START, _SETTLE = range(3)  # what comes first of one moment


def replay(policy: Policy, past: Past) -> list[tuple[PastRun, dict[str, Any]]]:
    """Each run, and what would have come of it, as plain values: who was quarantined, or why it was stopped."""
    played = _Replay(policy, past)
    events: list[tuple[datetime, int, int, Any]] = []
    for number, change in enumerate(past.changes):
        events.append((change.at, _CHANGE, number, change))
    for run in past.runs:
        events.append((run.started, _START, run.id, run))
        last: dict[str, datetime] = {}
        for end in run.ends:
            last[end.stage] = max(end.ended, last.get(end.stage, end.ended))
        events += [(at, _SETTLE, run.id * len(STAGES) + STAGES.index(s), (run, s, at)) for s, at in last.items()]
    for _, kind, _, what in sorted(events, key=lambda event: event[:3]):
        if kind == _CHANGE:
            played.change(what)
        elif kind == _START:
            played.start(what)
        else:
            played.settle(*what)
    return [(run, played.told[run.id]) for run in past.runs]


class _Replay:
    """States are those of the past, but that this policy quarantines in place of the one that was in force."""

    def __init__(self, policy: Policy, past: Past) -> None:
        self.policy, self.past = policy, past
        self.told = {run.id: _told(run) for run in past.runs}
        self.state = {host.id: host.state for host in past.hosts.values()}
        for change in reversed(past.changes):
            self.state[change.host] = change.before
        self.mine: set[int] = set()  # whom this policy has quarantined
        self.out: dict[int, frozenset[int]] = {}  # by run who was out of use before it
        self.runs: dict[str, list[PastRun]] = defaultdict(list)
        for run in past.runs:
            if run.together:
                self.runs[run.together].append(run)
        # a machine that answered in the place of one that was ready is quarantined for it, though it was not
        self.stood_for_ready = {
            (change.run, change.host)
            for change in past.changes
            if _by_policy(change) and change.before != READY and not change.why.startswith(f"{STAGES[-1]}: ")
        }
        self._found: dict[tuple[int, StageEnd], list[Finding]] = {}

    def change(self, change: Change) -> None:
        if _by_policy(change):
            return
        if change.host in self.mine and change.after not in (READY, *OUT):
            return
        self.mine.discard(change.host)
        self.state[change.host] = change.after

    def start(self, run: PastRun) -> None:
        self.out[run.id] = frozenset(host for host, state in self.state.items() if state in OUT)

    def settle(self, run: PastRun, stage: str, at: datetime) -> None:
        told = self.told[run.id]
        if told["stopped"]:
            return
        ends = {end.host: end for end in run.ends if end.stage == stage}
        decided = decide(self.policy, stage, self._judged(run, stage, at))
        if decided.stop:
            told["stopped"] = {
                "stage": stage,
                "why": decided.stop.why,
                "cause": decided.stop.cause,
                "hosts": sorted(self.past.hosts[int(host)].label for host in decided.stop.hosts),
            }
            return
        for host, end in ends.items():
            kept = decided.out.get(str(host))
            if kept:
                self.state[host] = QUARANTINED
                self.mine.add(host)
                told["quarantined"].append(_quarantined(self.past.hosts[host], stage, end.ended, kept))
            elif (
                stage == STAGES[-1]
                and end.result == "passed"
                and host in self.mine
                and not self.policy.quarantining(self._found_of(run, end))
            ):
                self.state[host] = READY
                self.mine.discard(host)

    def _judged(self, run: PastRun, stage: str, at: datetime) -> list[Judged]:
        known = []
        for one in self.runs.get(run.together, [run]):
            came_out: dict[int, dict[str, StageEnd]] = defaultdict(dict)
            for end in one.ends:
                if end.ended <= at:
                    came_out[end.host][end.stage] = end
            for host, since in one.let_in.items():
                if since > at:
                    continue
                ends = came_out.get(host, {})
                its = ends.get(stage)
                state = READY if (one.id, host) in self.stood_for_ready else self.state[host]
                known.append(
                    Judged(
                        name=str(host),
                        state=state,
                        before=QUARANTINED if host in self.out.get(one.id, ()) else READY,
                        result=its.result if its else None,
                        found=self._found_of(one, its) if its else [],
                        earlier=[f for name, end in ends.items() if name != stage for f in self._found_of(one, end)],
                        here=one is run and its is not None,
                    )
                )
        return known

    def _found_of(self, run: PastRun, end: StageEnd) -> list[Finding]:
        key = (run.id, end)
        if key not in self._found:
            self._found[key] = found_at(self.past.hosts[end.host].seen, end.stage, end.ended)
        return self._found[key]


def _by_policy(change: Change) -> bool:
    """Whether a stage did it, and not a person."""
    return change.after == QUARANTINED and change.why.partition(": ")[0] in STAGES


def _told(run: PastRun) -> dict[str, Any]:
    return {
        "run": run.id,
        "playbook": run.playbook,
        "started": run.started.isoformat(timespec="seconds"),
        "judged": len({end.host for end in run.ends}),
        "quarantined": [],
        "stopped": None,
    }


def _quarantined(host: PastHost, stage: str, at: datetime, kept: Iterable[Finding]) -> dict[str, Any]:
    worst = sorted(kept, key=lambda f: (f.status != "fail", -ACTIONS.index(f.action), f.symptom, f.locator))
    return {
        "name": host.label,
        "service_tag": host.service_tag,
        "at": at.isoformat(timespec="seconds"),
        "stage": stage,
        "symptoms": list(dict.fromkeys(f.symptom for f in worst)),
        "locator": worst[0].locator,
    }
