"""The brake: when so many hosts of a run fail, or so many in the same way, that it is probably not the hosts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from ..findings import Finding, shorten
from .causes import shared
from .ready import at_most
from .settings import Policy

_SHOWN = 3  # symptoms of a cause


@dataclass(frozen=True)
class Stop:
    """Why a run stops, in one line; the cause, "" where it is not one; and the hosts that fail by that, by name."""

    why: str
    cause: str
    hosts: tuple[str, ...]


def brake(policy: Policy, judged: Collection[str], found: Mapping[str, Iterable[Finding]]) -> Stop | None:
    """Whether a run must stop before it quarantines; None where it may go on.

    judged: names of all hosts that the run has let in, well or not. found: what they, and others, were found with in
    all of its stages so far. Leave out of both whoever was out of use before: a run over the hosts that are known to
    be broken must not stop.
    """
    total = len(set(judged))
    ill = {name: kept for name in sorted(set(judged)) if (kept := policy.quarantining(found.get(name, ())))}
    by_cause: dict[str, list[str]] = defaultdict(list)
    symptoms: dict[str, Counter[str]] = defaultdict(Counter)
    for name, kept in ill.items():
        for cause, findings in shared(kept).items():
            by_cause[cause].append(name)
            symptoms[cause].update({finding.symptom for finding in findings})
    for cause, names in sorted(by_cause.items(), key=lambda item: (-len(item[1]), item[0])):
        most = _allowed(policy, "brake_max_same_cause", total)
        if len(names) > most:
            why = (
                f"{len(names)} of {total} hosts have {_told(cause, symptoms[cause])}, and brake_max_same_cause allows "
                f"{most}; it is probably not the hosts but what they share"
            )
            return Stop(why, cause, tuple(names))
    most = _allowed(policy, "brake_max_quarantined", total)
    if len(ill) > most:
        why = (
            f"{len(ill)} of {total} hosts fail, and brake_max_quarantined allows {most}; "
            "it is probably not the hosts, look at what changed last"
        )
        return Stop(why, "", tuple(ill))
    return None


def _told(cause: str, symptoms: Counter[str]) -> str:
    """The symptom where there is one alone, else the cause with its symptoms."""
    known = [symptom for symptom, _ in sorted(symptoms.items(), key=lambda item: (-item[1], item[0]))]
    if len(known) == 1:
        task = cause.removeprefix(f"{known[0]}: ") if cause.startswith(f"{known[0]}: ") else ""
        return f"{known[0]} in {shorten(task, 80)}" if task else known[0]
    more = ", ..." if len(known) > _SHOWN else ""
    return f"a failure of {cause} ({', '.join(known[:_SHOWN])}{more})"


def _allowed(policy: Policy, key: str, hosts: int) -> int:
    """Fewer than ``brake_min_hosts`` never stop a run: of three hosts one is a third."""
    return max(at_most(key, getattr(policy, key), hosts), policy.brake_min_hosts - 1)
