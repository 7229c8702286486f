"""The brake: when so many hosts of a run fail, or so many in the same way, that it is probably not the hosts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from ..findings import Finding
from .ready import at_most
from .settings import Policy


@dataclass(frozen=True)
class Stop:
    """Why a run stops, in one line, and the hosts that it would have quarantined, by name."""

    why: str
    symptom: str
    hosts: tuple[str, ...]


def brake(policy: Policy, judged: Collection[str], found: Mapping[str, Iterable[Finding]]) -> Stop | None:
    """Whether a run must stop before it quarantines; None where it may go on.

    judged: names of all hosts that the run has judged, well or not. found: findings by host, of those and others.
    Leave out of both whoever was quarantined before: a run over the hosts that are known to be broken must not stop.
    """
    total = len(set(judged))
    ill = {name: kept for name in sorted(set(judged)) if (kept := policy.quarantining(found.get(name, ())))}
    by_symptom: dict[str, list[str]] = defaultdict(list)
    for name, kept in ill.items():
        for symptom in {finding.symptom for finding in kept}:
            by_symptom[symptom].append(name)
    for symptom, names in sorted(by_symptom.items(), key=lambda item: (-len(item[1]), item[0])):
        most = _allowed(policy, "brake_max_same_cause", total)
        if len(names) > most:
            why = (
                f"{len(names)} of {total} hosts have {symptom}, and brake_max_same_cause allows {most}; "
                "it is probably not the hosts but what they share"
            )
            return Stop(why, symptom, tuple(names))
    most = _allowed(policy, "brake_max_quarantined", total)
    if len(ill) > most:
        why = (
            f"{len(ill)} of {total} hosts fail, and brake_max_quarantined allows {most}; "
            "it is probably not the hosts, look at what changed last"
        )
        return Stop(why, "", tuple(ill))
    return None


def _allowed(policy: Policy, key: str, hosts: int) -> int:
    """Fewer than ``brake_min_hosts`` never stop a run: of three hosts one is a third."""
    return max(at_most(key, getattr(policy, key), hosts), policy.brake_min_hosts - 1)
