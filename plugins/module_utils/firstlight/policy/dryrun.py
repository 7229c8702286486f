"""A policy tried on the past: who would have been quarantined when, which runs would have been stopped."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from ..findings import ACTIONS, Finding
from ..ledger.store import STAGES
from .brake import brake
from .causes import UNSEEN
from .grade import Failure, Grade, grade, next_action
from .past import Past, PastHost, PastRun, failures, found_at, passes
from .ready import at_least
from .settings import Policy, spares_of

READY = "ready"


def dry_run(policy: Policy, past: Past, now: datetime, days: int | None = None) -> dict[str, Any]:
    """What this policy would have done, as plain values, ready for JSON.

    days: runs that began earlier are left out. A run that would have been stopped is told up to there; what the hosts
    did afterwards is taken as it was.
    """
    since = now - timedelta(days=days) if days else None
    held: dict[int, str] = {}  # who would be quarantined, and the stage that did it
    runs = []
    for run in past.runs:
        told = _one_run(policy, past, run, held)
        if told["judged"] and (since is None or run.started >= since):
            runs.append(told)
    passed = passes(past.runs)
    fleet = [host for host in past.hosts.values() if host.planned]
    of_host = {host.id: failures(host.seen, passed.get(host.id, {})) for host in fleet}
    grades = {host.id: grade(policy, of_host[host.id], host.ready_since, now) for host in fleet}
    ready = sum(host.state == READY for host in fleet)
    required, spares = at_least("fleet_min_ready", policy.fleet_min_ready, len(fleet)), spares_of(policy, len(fleet))
    return {
        "policy": asdict(policy),
        "at": now.isoformat(timespec="seconds"),
        "runs": runs,
        "hosts": [
            {
                "name": host.label,
                "service_tag": host.service_tag,
                "state": host.state,
                "failures": len([f for f in of_host[host.id] if f.certain]),
                **asdict(grades[host.id]),
                "next": _next(policy, of_host[host.id], grades[host.id], now),
            }
            for host in fleet
        ],
        "fleet": {
            "hosts": len(fleet),
            "ready": ready,
            "required": required,
            "met": ready >= required,
            "spares": spares,
            "for_jobs": max(ready - spares, 0),
        },
    }


def _one_run(policy: Policy, past: Past, run: PastRun, held: dict[int, str]) -> dict[str, Any]:
    told: dict[str, Any] = {
        "run": run.id,
        "playbook": run.playbook,
        "started": run.started.isoformat(timespec="seconds"),
        "judged": len({end.host for end in run.ends}),
        "quarantined": [],
        "stopped": None,
    }
    for stage in STAGES:
        ends = {end.host: end for end in run.ends if end.stage == stage}
        found = {h: found_at(past.hosts[h].seen, stage, end.ended) for h, end in ends.items()}
        before = [h for h in ends if h not in held]
        stop = brake(policy, [str(h) for h in before], {str(h): found[h] for h in before})
        if stop:
            told["stopped"] = {
                "stage": stage,
                "why": stop.why,
                "symptom": stop.symptom,
                "hosts": sorted(past.hosts[int(h)].label for h in stop.hosts),
            }
            break
        for host, end in ends.items():
            kept = policy.quarantining(found[host])
            if kept and host not in held:
                held[host] = stage
                told["quarantined"].append(_quarantined(past.hosts[host], stage, end.ended, kept))
            elif not kept and end.result == "passed" and held.get(host) == stage:
                del held[host]
    return told


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


def _next(policy: Policy, of_host: list[Failure], graded: Grade, now: datetime) -> list[dict[str, str]]:
    """What is to be done about each cause that holds."""
    earlier = [f for f in of_host if f.ended is not None]
    steps = []
    for failure in of_host:
        if failure.ended is None and failure.cause.kind != UNSEEN:
            step = next_action(policy, failure.cause, failure.action, earlier, now, graded)
            steps.append({"cause": str(failure.cause), "asked": failure.action, **asdict(step)})
    return steps
