"""Which tickets to open, update and close. Pure: planning again after that changes nothing."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from ..findings import ACTIONS, Finding, highest_action, shorten
from ..policy.causes import LINKS, Cause, group
from ..policy.grade import Failure, Grade, NextAction, next_action
from ..policy.settings import Policy
from .model import CLOSED, OPEN, Place, Ticket, Update

FINDINGS_MAX = 60  # of one ticket, the worst; a cause that more tell of needs no more of them
SAID_MAX = 600  # characters of one update

# Stages in which every check runs whatever the others find, so that what is not found any more is mended.
_COMPLETE = ("discover", "smoke")
# What says that a host could not be looked at.
_BLIND = re.compile(r"(ssh|bmc|maas|verdict|host)\..*|.*\.(no_answer|task_failed)")


@dataclass(frozen=True)
class Held(Finding):
    """A finding that holds now. stage: where it was found."""

    stage: str = ""

    @classmethod
    def of(cls, finding: Finding, stage: str) -> Held:
        return cls(**finding.to_dict(), stage=stage)

    def bare(self) -> Finding:
        return Finding(self.check, self.status, self.symptom, self.locator, self.evidence, self.action)


@dataclass(frozen=True)
class HostNow:
    """A host of the fleet as the ledger has it.

    held: what holds of it. results: {stage: passed, failed, undone or None}, of its last way through each.
    earlier, grade: its past, for the next action.
    """

    name: str
    service_tag: str | None
    place: Place
    held: tuple[Held, ...] = ()
    results: Mapping[str, str | None] = field(default_factory=dict)
    earlier: tuple[Failure, ...] = ()
    grade: Grade | None = None


@dataclass(frozen=True)
class Plan:
    opened: list[Ticket] = field(default_factory=list)
    updated: list[Ticket] = field(default_factory=list)
    closed: list[Ticket] = field(default_factory=list)

    def all(self) -> list[Ticket]:
        return [*self.opened, *self.updated, *self.closed]


def plan(
    policy: Policy,
    tickets: Iterable[Ticket],
    hosts: Iterable[HostNow],
    now: datetime,
    stopped: Collection[str] = (),
) -> Plan:
    """What to do so that each cause on each of these hosts has one open ticket.

    tickets: all that there are, closed ones too (they count for new ids). hosts: those to look at; tickets of others
    are left alone. A ticket is opened from ``ticket_min_action`` on, but for hosts in ``stopped``: the brake says that
    it is probably not they. Other numbers in the evidence are no change.
    """
    known = list(tickets)
    numbers: dict[str, int] = defaultdict(int)
    for ticket in known:
        prefix, _, number = ticket.id.rpartition("-")
        if number.isdecimal():
            numbers[prefix] = max(numbers[prefix], int(number))
    free = {ticket.id: ticket for ticket in known if ticket.state == OPEN}
    at = now.isoformat(timespec="seconds")
    made = Plan()
    for host in hosts:
        mine = [t for t in free.values() if _is_of(t, host)]
        groups = group(policy.quarantining(host.held))
        matched = _match(groups, mine)
        for cause, whole in groups.items():
            found = whole[:FINDINGS_MAX]
            step = _next(policy, host, cause, found, now)
            its = matched.get(cause)
            if its is not None:
                del free[its.id]
                changed = _updated(its, host, cause, found, step.action, step.why, at)
                made.updated.extend([changed] if changed else [])
            elif host.name in stopped:
                continue
            elif ACTIONS.index(step.action) >= ACTIONS.index(policy.ticket_min_action):
                prefix = f"{re.sub(r'[^A-Za-z0-9._-]', '_', host.service_tag or host.name)}-{cause.kind}"
                numbers[prefix] += 1
                made.opened.append(
                    Ticket(
                        id=f"{prefix}-{numbers[prefix]}",
                        host=host.name,
                        service_tag=host.service_tag,
                        place=host.place,
                        cause=cause,
                        state=OPEN,
                        action=step.action,
                        findings=_bare(found),
                        stages=_stages(found),
                        opened=at,
                        updated=at,
                        why=step.why,
                        history=(Update(at, f"opened: {step.action}"),),
                    )
                )
        for ticket in mine:
            if ticket.id in free and _is_mended(ticket, host):
                del free[ticket.id]
                said = f"closed: not found any more by {', '.join(ticket.stages)}"
                made.closed.append(ticket.changed(at, said, state=CLOSED))
    return made


def due(policy: Policy, hosts: Iterable[HostNow], now: datetime) -> dict[str, str]:
    """By name the highest action that is due, as tickets have it; hosts of which nothing quarantines are left out."""
    found = {}
    for host in hosts:
        groups = group(policy.quarantining(host.held))
        steps = [_next(policy, host, cause, whole[:FINDINGS_MAX], now).action for cause, whole in groups.items()]
        if steps:
            found[host.name] = max(steps, key=ACTIONS.index)
    return found


def _next(policy: Policy, host: HostNow, cause: Cause, found: list[Finding], now: datetime) -> NextAction:
    return next_action(policy, cause, highest_action(found), host.earlier, now, host.grade)


def _is_of(ticket: Ticket, host: HostNow) -> bool:
    """By service tag; a ticket from before the BMC told it, by name."""
    return ticket.service_tag == host.service_tag if ticket.service_tag else ticket.host == host.name


def _match(groups: Mapping[Cause, list[Finding]], tickets: list[Ticket]) -> dict[Cause, Ticket]:
    """Which open ticket each cause has: the same part, else one of the kind that may be the same part."""
    matched: dict[Cause, Ticket] = {}
    for alike in (_same, _maybe_same):
        for cause in groups:
            taken = {ticket.id for ticket in matched.values()}
            free = [t for t in tickets if t.id not in taken and alike(t.cause, cause)]
            if cause not in matched and free:
                matched[cause] = min(free, key=lambda t: (t.opened, t.id))
    return matched


def _same(one: Cause, other: Cause) -> bool:
    return one == other


def _maybe_same(one: Cause, other: Cause) -> bool:
    if one.kind != other.kind:
        return False
    vague = {"", LINKS}
    if one.part in vague or other.part in vague:
        return True
    # a BMC spells parts as slots, a kernel as addresses
    return bool(re.match(r"[a-z]+\.[a-z]", one.part)) != bool(re.match(r"[a-z]+\.[a-z]", other.part))


def _updated(
    ticket: Ticket, host: HostNow, cause: Cause, found: list[Finding], action: str, why: str, at: str
) -> Ticket | None:
    """The ticket with what is new of it; None where nothing is."""
    action = max(action, ticket.action, key=ACTIONS.index)
    before, after = {_key(f) for f in ticket.findings}, {_key(f) for f in found}
    said = [f"now {action}, was {ticket.action}"] if action != ticket.action else []
    said += [f"new: {' '.join(key).rstrip()}" for key in sorted(after - before)]
    said += [f"gone: {' '.join(key).rstrip()}" for key in sorted(before - after)]
    if ticket.service_tag != host.service_tag:
        said.append(f"service tag {host.service_tag}")
    if (ticket.host, ticket.place) != (host.name, host.place):
        said.append(f"now {host.name}, rack {host.place.rack} unit {host.place.unit}")
    part = cause.part if cause.part not in ("", LINKS) else ticket.cause.part
    if not said and part == ticket.cause.part:
        return None
    return ticket.changed(
        at,
        shorten("; ".join(said) or f"part {part}", SAID_MAX),
        host=host.name,
        service_tag=host.service_tag,
        place=host.place,
        cause=Cause(cause.kind, part),
        action=action,
        why=why if action != ticket.action else ticket.why,
        findings=_bare(found),
        stages=_stages(found),
    )


def _is_mended(ticket: Ticket, host: HostNow) -> bool:
    """Whether its stages were gone through without its findings, and could have found them."""
    for stage in ticket.stages:
        result = host.results.get(stage)
        if result == "failed" and stage in _COMPLETE:
            held = [f for f in host.held if f.stage == stage]
            if any(f.status == "unknown" or _BLIND.fullmatch(f.symptom) for f in held):
                return False
        elif result != "passed":
            return False
    return True


def _key(finding: Finding) -> tuple[str, str]:
    return finding.symptom, finding.locator


def _bare(found: list[Finding]) -> tuple[Finding, ...]:
    return tuple(f.bare() if isinstance(f, Held) else f for f in found)


def _stages(found: list[Finding]) -> tuple[str, ...]:
    return tuple(sorted({f.stage for f in found if isinstance(f, Held) and f.stage}))
