"""Which clock is wrong: those of the BMCs, of MAAS, of a host and of this machine, compared.

Every reading says how far a clock is ahead of the controller's, so the controller's own is 0. That one can be the
wrong one: MAAS and most BMCs then agree against it. Standard library only: this file also runs on the hosts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import List, Optional, Sequence

from .findings import Finding

SYMPTOM = "clock.skew"
LIMIT_SECONDS = 30.0
# MAAS refuses requests whose time stamp is older (OAuth), those of the machines that it commissions too.
MAAS_SECONDS = 300.0
MAJORITY = 3  # so many BMCs at least make one


@dataclass(frozen=True)
class Reading:
    """One clock. skew: seconds ahead of the controller's (negative: behind), known up to uncertainty seconds."""

    clock: str
    skew: float
    uncertainty: float = 0.0


CONTROLLER = Reading("this controller's clock", 0.0)


def apart(one: Reading, other: Reading) -> float:
    """Seconds by which two clocks differ for certain."""
    return max(0.0, abs(one.skew - other.skew) - one.uncertainty - other.uncertainty)


def difference(one: Reading, other: Reading) -> str:
    """In words how far the one is from the other: ``12 s ahead of MAAS's clock``."""
    skew = one.skew - other.skew
    return f"{abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} {other.clock}"


def between(first: float, last: float, reading: float, clock: str, base: float = 0.0) -> Reading:
    """A clock that said ``reading`` at some moment between ``first`` and ``last`` of another that is ``base`` ahead."""
    return Reading(clock, base + reading - (first + last) / 2, abs(last - first) / 2)


def judge_site(maas: Optional[Reading], bmcs: Sequence[Reading], limit: float = LIMIT_SECONDS) -> List[Finding]:
    """The two clocks that everything is measured by: the controller's and MAAS's. The BMCs say which one is wrong."""
    if maas is None:
        if len(bmcs) < MAJORITY or not _most_agree_against(CONTROLLER, bmcs, limit):
            return []
        middle = _middle(bmcs)
        said = f"{difference(CONTROLLER, middle)} (most of {len(bmcs)} BMCs agree); MAAS was not asked"
        return [_finding("warn", CONTROLLER, said, "escalate")]
    if apart(maas, CONTROLLER) <= limit:
        return []
    with_maas = _agreeing(maas, bmcs, limit)
    with_us = _agreeing(CONTROLLER, bmcs, limit)
    if len(bmcs) >= MAJORITY and with_maas * 2 > len(bmcs):
        said = f"{difference(CONTROLLER, maas)}, and {with_maas} of {len(bmcs)} BMCs agree with MAAS: set it right"
        return [_finding("warn", CONTROLLER, said, "escalate")]
    if len(bmcs) >= MAJORITY and with_us * 2 > len(bmcs):
        said = f"{difference(maas, CONTROLLER)}, and {with_us} of {len(bmcs)} BMCs agree with the controller"
        return [_finding("warn", maas, said, "escalate")]
    said = f"{difference(maas, CONTROLLER)}; the BMCs do not tell which of the two is wrong (NTP on both)"
    return [_finding("warn", maas, said, "escalate")]


def judge_bmc(
    bmc: Reading, maas: Reading, limit: float = LIMIT_SECONDS, fail_beyond: float = MAAS_SECONDS
) -> List[Finding]:
    """A BMC's clock against MAAS's, before the machine is commissioned: it starts with its BMC's time."""
    off = apart(bmc, maas)
    if off <= limit:
        return [Finding("clock", "ok", "clock", "BMC", f"{difference(bmc, maas)}; {limit:g} s are allowed")]
    said = f"{difference(bmc, maas)}; {limit:g} s are allowed"
    if apart(CONTROLLER, maas) > limit:
        said += f", and it is {difference(bmc, CONTROLLER)}"
    if off <= max(limit, fail_beyond):
        return [_finding("warn", bmc, said, "none")]
    said += f"; beyond {fail_beyond:g} s MAAS refuses a machine that starts with this time"
    return [_finding("fail", bmc, said, "reset_bmc")]


def judge_host(host: Reading, others: Sequence[Reading], limit: float = LIMIT_SECONDS, when: str = "") -> List[Finding]:
    """A host's clock against those of others, the one to go by first. Never a failure: role time_sync sets it."""
    if not others or apart(host, others[0]) <= limit:
        return []
    if len(others) > 1 and all(apart(host, other) <= limit for other in others[1:]):
        agreeing = " and ".join(other.clock for other in others[1:])
        said = f"{difference(others[0], host)}, with which {agreeing} agree{'s' if len(others) == 2 else ''}"
        return [_finding("warn", others[0], f"{said}{when}", "escalate")]
    said = f"{', '.join(difference(host, other) for other in others)}{when}; {limit:g} s are allowed"
    return [_finding("warn", host, said, "none")]


def _agreeing(clock: Reading, others: Sequence[Reading], limit: float) -> int:
    return sum(apart(clock, other) <= limit for other in others)


def _middle(bmcs: Sequence[Reading]) -> Reading:
    """The BMC in the middle: a few that are far off do not move it."""
    found = sorted(bmcs, key=lambda r: r.skew)[len(bmcs) // 2]
    return Reading("the BMCs' clocks", found.skew, found.uncertainty)


def _most_agree_against(clock: Reading, bmcs: Sequence[Reading], limit: float) -> bool:
    middle = _middle(bmcs)
    return apart(clock, middle) > limit and _agreeing(middle, bmcs, limit) * 2 > len(bmcs)


def _finding(status: str, clock: Reading, said: str, action: str) -> Finding:
    return Finding("clock", status, SYMPTOM, clock.clock, said, action)
