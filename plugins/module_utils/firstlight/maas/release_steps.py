"""What comes next for a machine that is given back, and which must not be: pure judgements over what MAAS says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..findings import Finding
from . import machines as m
from .desired import service_tag_of
from .machines import FLEET_TAG, Machine, is_locked, label, macs_of, status_name, status_of, tags_of, text_of

WAIT, ABORT, RELEASE, DONE, FAIL = "wait", "abort", "release", "done", "fail"
ERASES = ("none", "quick", "secure")

# Nobody's: there is nothing to give back.
_FREE = frozenset({m.NEW, m.READY, m.FAILED_COMMISSIONING, m.FAILED_TESTING})
_HELD = frozenset({m.DEPLOYED, m.ALLOCATED, m.RESERVED, m.FAILED_DEPLOYMENT, m.FAILED_RELEASING, m.FAILED_ERASING})
_TAKEN = frozenset({m.ALLOCATED, m.RESERVED, m.DEPLOYING, m.DEPLOYED, m.FAILED_DEPLOYMENT})
_BUSY = frozenset({m.COMMISSIONING, m.TESTING, m.DEPLOYING})
_ON_ITS_WAY = frozenset({m.RELEASING, m.ERASING})
# Types of MAAS's events, which are fixed texts (provisioningserver/events.py).
_POWER_FAILED = frozenset({"Failed to power off node", "Failed to power on node", "Failed to query node's BMC"})


@dataclass(frozen=True)
class Releasing:
    """A host whose machine is to be given back. macs: all that are known, of this host alone."""

    name: str
    macs: tuple[str, ...] = ()
    service_tag: str = ""


@dataclass(frozen=True)
class Step:
    """kind: wait | abort | release | done | fail. because: the machine's status. finding: why it fails."""

    kind: str
    because: str = ""
    finding: Finding | None = None


def find(host: Releasing, machines: Sequence[Machine]) -> Machine | Finding | None:
    """The machine of a host: by MAC, else by name where nothing says that it is another server; None: MAAS has none."""
    macs = {mac.lower() for mac in host.macs if mac}
    found = [machine for machine in machines if macs & set(macs_of(machine))]
    where = f"MAAS machine {host.name}"
    if len(found) > 1:
        said = f"MAAS has {' and '.join(label(x) for x in found)} with MACs of {host.name}; nothing was done"
        return Finding("release", "fail", "maas.duplicate", where, said, "escalate")
    if found and text_of(found[0], "hostname") != host.name:
        said = f"{label(found[0])} in MAAS has MACs of {host.name}, but another name; nothing was done; enlist first"
        return Finding("release", "fail", "maas.name_conflict", where, said, "escalate")
    if found:
        return found[0]
    named = [machine for machine in machines if text_of(machine, "hostname") == host.name]
    if not named:
        return None
    tag = service_tag_of(named[0])
    same = bool(tag) and tag == host.service_tag
    if FLEET_TAG in tags_of(named[0]) and not same and (macs or (tag and host.service_tag)):
        said = f"{label(named[0])} in MAAS has this host's name, but none of its MACs, nor its service tag; "
        said += "nothing was done; enlist first"
        return Finding("release", "fail", "maas.name_conflict", where, said, "escalate")
    return named[0]


def next_step(machine: Machine, us: str, began: bool = False, released: bool = False) -> Step:
    """What to do with a machine on its way to Ready. us: our user in MAAS.

    began: we did something to it in this run. released: MAAS took our release. Only machines with the tag firstlight
    that are nobody else's and not locked are touched, and none that was given to somebody after our release.
    """
    status, who, word = status_of(machine), label(machine), status_name(machine)
    if FLEET_TAG not in tags_of(machine):
        return _refuse(machine, "maas.foreign", f"{who} has no tag {FLEET_TAG} in MAAS: it is not known to be ours")
    if is_locked(machine):
        return _refuse(machine, "maas.locked", f"{who} is {word} and locked in MAAS; unlock it there if that is meant")
    owner = text_of(machine, "owner")
    if owner and owner != us:
        said = f"{who} is {word} to {owner} in MAAS, and we are {us or 'not known'}"
        return _refuse(machine, "maas.foreign", said)
    if status in _FREE:
        if began and text_of(machine, "power_state") == "on":
            return Step(WAIT, f"{word}, power on")
        return Step(DONE, word)
    if released and status in _TAKEN:
        said = f"{who} was released by this run and is {word} again: somebody has taken it meanwhile; it is left alone"
        return _refuse(machine, "maas.taken", said)
    if status in _HELD:
        return Step(RELEASE, word)
    if status in _BUSY:
        return Step(ABORT, word)
    if status in _ON_ITS_WAY:
        return Step(WAIT, word)
    if status == m.BROKEN:
        said = text_of(machine, "error_description") or "no reason given"
        return _refuse(machine, "maas.broken", f"{who} is marked broken in MAAS: {said}; mark it fixed there first")
    return _refuse(machine, "maas.not_releasable", f"{who} is {word} in MAAS, which nothing can be released from")


def judge(machine: Machine, events: Sequence[dict[str, Any]], said: str, symptom: str) -> Finding:
    """Why a machine did not become Ready. events: of this machine, newest first; symptom: if they tell no better."""
    recent: list[dict[str, Any]] = []
    for event in events:
        if event.get("type") == "Releasing":
            break
        recent.append(event)
    failed = next((e for e in recent if e.get("type") in _POWER_FAILED), None)
    action = "retry"
    if failed is not None:
        symptom, action = "release.power_failed", "reset_bmc"
    else:
        failed = next((e for e in recent if str(e.get("level")) in ("ERROR", "CRITICAL")), None)
    if failed is not None:
        said += f"; {failed.get('type')}: {failed.get('description') or 'no more was said'}"
    return Finding("release", "fail", symptom, f"MAAS machine {label(machine)}", said, action)


def _refuse(machine: Machine, symptom: str, evidence: str) -> Step:
    finding = Finding("release", "fail", symptom, f"MAAS machine {label(machine)}", evidence, "escalate")
    return Step(FAIL, status_name(machine), finding)
