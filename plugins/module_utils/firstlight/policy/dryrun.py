"""A policy tried on the past: who would have been quarantined when, which runs would have been stopped."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from ..ledger.standing import READY
from .causes import UNSEEN
from .grade import Failure, Grade, grade, next_action
from .past import Past, failures, passes
from .ready import spares_left
from .replay import replay
from .settings import Policy


def dry_run(policy: Policy, past: Past, now: datetime, days: int | None = None) -> dict[str, Any]:
    """What this policy would have done, as plain values, ready for JSON.

    days: runs that began earlier are left out. A run that would have been stopped is told up to there; what the hosts
    did afterwards is taken as it was.
    """
    since = now - timedelta(days=days) if days else None
    told = replay(policy, past)
    runs = [one for run, one in told if one["judged"] and (since is None or run.started >= since)]
    passed = passes(past.runs)
    fleet = [host for host in past.hosts.values() if host.planned]
    of_host = {host.id: failures(host.seen, passed.get(host.id, {})) for host in fleet}
    grades = {host.id: grade(policy, of_host[host.id], host.ready_since, now) for host in fleet}
    ready = sum(host.state == READY for host in fleet)
    left = spares_left(policy.fleet_min_ready, policy.spares, len(fleet), ready)
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
            "required": left["required"],
            "met": ready >= left["required"],
            "spares": left["wanted"],
            "missing": left["missing"],
            "for_jobs": max(ready - left["wanted"], 0),
        },
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
