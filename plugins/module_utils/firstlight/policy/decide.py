"""Who is quarantined at the end of a stage, and whether the run stops instead: for runs, and for the dry run alike."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ..findings import Finding
from ..ledger.judged import Judged
from ..ledger.standing import OUT, READY, STAGES
from .brake import Stop, brake
from .settings import Policy


@dataclass(frozen=True)
class Decision:
    """stop: why the run must stop. out: who is quarantined where it goes on, and for which findings."""

    stop: Stop | None
    out: dict[str, list[Finding]] = field(default_factory=dict)


def decide(policy: Policy, stage: str, hosts: Iterable[Judged]) -> Decision:
    """hosts: all that the run has let in so far, with what they were found with in all its stages.

    Who was out of use before the run, or is held, does not count for the brake; only who was in use is quarantined.
    """
    known = list(hosts)
    count = [host for host in known if host.before not in OUT and not host.held]
    stop = brake(policy, [host.name for host in count], {host.name: [*host.earlier, *host.found] for host in count})
    out = {
        host.name: kept
        for host in known
        if host.here and _was_in_use(host, stage) and (kept := policy.quarantining(host.found))
    }
    return Decision(stop, out)


def _was_in_use(host: Judged, stage: str) -> bool:
    """Ready, or it would be with this stage."""
    return host.state == READY or (stage == STAGES[-1] and host.result == "passed" and host.state not in OUT)
