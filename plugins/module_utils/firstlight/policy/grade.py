"""What a host's past says: golden or lemon, and which action is next when the last one did not help."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ..findings import ACTIONS
from .causes import HARDWARE, UNSEEN, Cause
from .settings import Policy

# What follows an action that did not help. reset_bmc is of use to a BMC alone; firmware is never updated on suspicion,
# and what was set wrongly is not mended by a hand or a part.
_HARDWARE_STEPS = ("wait", "retry", "reboot", "power_cycle", "reseat", "replace", "escalate")
_BMC_STEPS = ("wait", "retry", "reset_bmc", "power_cycle", "reseat", "replace", "escalate")
_OTHER_STEPS = ("wait", "retry", "reboot", "escalate")
# What parts of one kind hang on together; the board where it is not here.
_SHARED = {
    "gpu": "the baseboard, riser or power that they share",
    "hca": "the riser or PCIe switch that they share",
    "nic": "the riser or PCIe switch that they share",
    "drive": "the backplane, cable or controller that they share",
    "psu": "the power feed that they share",
    "fan": "the fan board that they share",
    "memory": "the board or CPU that they share",
}


@dataclass(frozen=True)
class Failure:
    """One time that a cause was there. began, ended: aware times; ended None while it holds.

    action: the highest that its findings asked for. certain: false where nothing was ever seen to fail (unknown).
    """

    cause: Cause
    began: datetime
    ended: datetime | None = None
    action: str = "none"
    certain: bool = True


@dataclass(frozen=True)
class Grade:
    """golden, lemon, or "" for neither; why: one line. cause: of a lemon, the kind that fails again and again."""

    grade: str
    why: str
    kind: str = ""


def grade(policy: Policy, failures: Iterable[Failure], ready_since: datetime | None, now: datetime) -> Grade:
    """Judge a host by its failures until ``now``.

    ready_since: since when it has been in state ready without a break, None where it is not ready.
    A lemon fails ``lemon_failures`` times by one kind of part within ``lemon_days``; golden is who has been ready for
    ``golden_days`` without a failure.
    """
    known = [f for f in failures if f.began <= now]
    since = now - timedelta(days=policy.lemon_days)
    recent = [f for f in known if f.certain and f.began > since and f.cause.kind in HARDWARE]
    counted = {kind: _times([f for f in recent if f.cause.kind == kind]) for kind in {f.cause.kind for f in recent}}
    worst = min(counted.items(), key=lambda item: (-item[1], item[0]), default=("", 0))
    if worst[1] >= policy.lemon_failures:
        return Grade("lemon", f"{worst[1]} failures of {worst[0]} in {policy.lemon_days} days", worst[0])
    last = max((f.ended or now for f in known), default=None)
    well_since = max((at for at in (last, ready_since) if at is not None), default=None)
    if ready_since is None or well_since is None:
        return Grade("", "not ready")
    days = (now - well_since).total_seconds() / 86400
    if days >= policy.golden_days:
        return Grade("golden", f"{int(days)} days without a failure")
    return Grade("", f"{max(int(days), 0)} days without a failure, golden_days is {policy.golden_days}")


def _times(failures: Iterable[Failure]) -> int:
    """How often it failed: what failed while something of its kind was failing already is the same time."""
    count, until = 0, None
    for failure in sorted(failures, key=lambda f: f.began):
        if count == 0 or (until is not None and failure.began > until):
            count, until = count + 1, failure.ended
        elif until is not None:
            until = None if failure.ended is None else max(until, failure.ended)
    return count


@dataclass(frozen=True)
class NextAction:
    """action: one of ACTIONS. why: one line, "" where it is simply what the findings ask for."""

    action: str
    why: str = ""


def next_action(
    policy: Policy,
    cause: Cause,
    asked: str,
    earlier: Sequence[Failure],
    now: datetime,
    graded: Grade | None = None,
) -> NextAction:
    """What to do about a cause that holds now.

    asked: the highest action of its findings. earlier: the host's failures that have ended. One of the same cause that
    ended within ``escalate_days`` was answered with its action, which did not last: the next one is a step higher.
    A lemon's part is replaced where that part itself has failed before. Where as many parts as make a lemon have
    failed, and this one for the first time, it is what they share, which a person must look at.
    """
    if asked in ("none", "escalate"):
        return NextAction(asked)
    since = now - timedelta(days=policy.escalate_days)
    same = [f for f in earlier if same_cause(f.cause, cause) and f.ended is not None and since < f.ended <= now]
    action, why = asked, ""
    for failure in sorted(same, key=lambda f: f.began):
        action = max(action, failure.action, key=ACTIONS.index)
        why = f"{action} was tried within {policy.escalate_days} days and did not last"
        action = _above(cause.kind, action)
    if graded and graded.grade == "lemon" and graded.kind == cause.kind and _is_below(action, "replace"):
        since = now - timedelta(days=policy.lemon_days)
        recent = [f.cause for f in earlier if f.certain and f.cause.kind == cause.kind and since < f.began <= now]
        if any(same_cause(one, cause) for one in recent):
            return NextAction("replace", f"a lemon: {graded.why}")
        parts = {one.part for one in recent} | {cause.part}
        if len(parts) >= policy.lemon_failures:
            look = _SHARED.get(cause.kind, "the board")
            return NextAction("escalate", f"a lemon: {graded.why}, of {len(parts)} parts; look at {look}")
    return NextAction(action, why)


def same_cause(one: Cause, other: Cause) -> bool:
    """Of one kind, and not known to be of two parts."""
    return one.kind == other.kind != UNSEEN and (one.part == other.part or not one.part or not other.part)


def _steps(kind: str) -> tuple[str, ...]:
    if kind == "bmc":
        return _BMC_STEPS
    return _HARDWARE_STEPS if kind in HARDWARE else _OTHER_STEPS


def _above(kind: str, action: str) -> str:
    return next((step for step in _steps(kind) if _is_below(action, step)), "escalate")


def _is_below(action: str, other: str) -> bool:
    return ACTIONS.index(action) < ACTIONS.index(other)
