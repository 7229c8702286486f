"""What comes next for a machine, and why one did not come: pure judgements over what MAAS says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..findings import Finding
from . import machines as m
from .machines import Machine, is_locked, label, status_name, status_of, tags_of, text_of

WAIT, COMMISSION, DEPLOY, RELEASE, DONE, FAIL = "wait", "commission", "deploy", "release", "done", "fail"

# What a machine of this status is in the middle of, which has a deadline.
PHASES = {
    m.COMMISSIONING: "commission",
    m.TESTING: "commission",
    m.DEPLOYING: "deploy",
    m.RELEASING: "release",
    m.ERASING: "release",
}
_RETRY_BY = {m.FAILED_COMMISSIONING: COMMISSION, m.FAILED_DEPLOYMENT: RELEASE, m.FAILED_RELEASING: RELEASE}
_PHASE_THAT_FAILED = {
    m.FAILED_COMMISSIONING: "commission",
    m.FAILED_TESTING: "commission",
    m.FAILED_DEPLOYMENT: "deploy",
    m.FAILED_RELEASING: "release",
    m.FAILED_ERASING: "release",
}

# Types of MAAS's events, which are fixed texts (provisioningserver/events.py); it has no codes in its API.
_POWER_FAILED = frozenset({"Failed to power on node", "Failed to power off node", "Failed to query node's BMC"})
_POWER_WORKED = frozenset({"Node powered on", "Node powered off", "Queried node's BMC"})
_BOOTED = frozenset(
    {
        "PXE Request",
        "TFTP Request",
        "HTTP Request",
        "Performing PXE boot",
        "Loading ephemeral",
        "Gathering information",
        "Configuring storage",
        "Installing OS",
        "Configuring OS",
        "Rebooting",
    }
)
_STARTED = {"commission": "Commissioning", "deploy": "Deploying", "release": "Releasing"}


@dataclass(frozen=True)
class Step:
    """kind: wait | commission | deploy | release | done | fail. because: in words. is_retry: uses up a retry.

    finding: why it fails, None where the events of the machine have to be judged first (phase says of what).
    """

    kind: str
    because: str = ""
    is_retry: bool = False
    phase: str = ""
    finding: Finding | None = None


def next_step(machine: Machine, retries_left: int, us: str | None = None) -> Step:
    """What to do with a machine of the fleet on its way to Deployed.

    us: our user in MAAS, needed for machines of status allocated or reserved alone (ask ``owner_matters``).
    """
    status = status_of(machine)
    if m.FLEET_TAG not in tags_of(machine):
        said = f"{label(machine)} has no tag {m.FLEET_TAG} in MAAS: it is not known to be ours; run enlist"
        return _refuse(machine, "maas.foreign", said)
    if status == m.DEPLOYED:
        return Step(DONE)
    if is_locked(machine):
        return _refuse(machine, "maas.locked", f"{label(machine)} is {status_name(machine)} and locked in MAAS")
    if status in PHASES:
        return Step(WAIT, status_name(machine), phase=PHASES[status])
    if status == m.NEW:
        return Step(COMMISSION, "new")
    if status == m.READY:
        return Step(DEPLOY, "ready")
    if status in _RETRY_BY and retries_left > 0:
        return Step(_RETRY_BY[status], status_name(machine), is_retry=True)
    if status in _PHASE_THAT_FAILED:
        return Step(FAIL, status_name(machine), phase=_PHASE_THAT_FAILED[status])
    if owner_matters(machine):
        owner = text_of(machine, "owner")
        if status == m.ALLOCATED and us and owner == us:
            # A deploy that MAAS refused half way leaves it so; disks can be chosen in Ready alone.
            return Step(RELEASE, "allocated to us, not deployed")
        said = f"{label(machine)} is {status_name(machine)} to {owner or 'somebody'} in MAAS"
        return _refuse(machine, "maas.foreign", said)
    if status == m.BROKEN:
        return _refuse(machine, "maas.broken", f"{label(machine)} is marked broken in MAAS: {error_text(machine)}")
    said = f"{label(machine)} is {status_name(machine)} in MAAS: {error_text(machine)}"
    return _refuse(machine, "maas.not_installable", said)


def owner_matters(machine: Machine) -> bool:
    return status_of(machine) in (m.ALLOCATED, m.RESERVED)


def error_text(machine: Machine) -> str:
    """MAAS's own word on what is wrong with the machine."""
    return text_of(machine, "error_description") or text_of(machine, "status_message") or "no reason given"


def judge(
    phase: str, machine: Machine, events: Sequence[dict[str, Any]], timed_out_minutes: float | None = None
) -> Finding:
    """Why a machine failed in a phase (commission, deploy, release), or did not come out of it in time.

    events: of this machine, newest first. Only those since the phase began count.
    """
    recent = _since_start(phase, events)
    types = [str(e.get("type")) for e in recent]
    power = next((e for e in recent if e.get("type") in _POWER_FAILED | _POWER_WORKED), None)
    if timed_out_minutes is None:
        failed = next((e for e in recent if str(e.get("level")) in ("ERROR", "CRITICAL")), None)
        said = _text(failed) if failed else error_text(machine)
    else:
        said = f"still {status_name(machine)} after {timed_out_minutes:g} minutes"
    if power is not None and power.get("type") in _POWER_FAILED:
        evidence = f"{said}; {_text(power)}" if _text(power) != said else said
        return _failed(machine, "install.power_failed", evidence, "reset_bmc")
    if phase != "release" and recent and not _BOOTED & set(types):
        evidence = f"{said}; no network boot was seen since MAAS powered it on (link? VLAN? DHCP? boot order?)"
        return _failed(machine, "install.no_pxe", evidence, "power_cycle")
    last = next((e for e in recent if str(e.get("type")) in _BOOTED), None)
    reached = f"; the last that was seen of it: {_text(last)}" if last else ""
    symptom = "install.failed" if timed_out_minutes is None else "install.timed_out"
    return _failed(machine, symptom, f"{phase}: {said}{reached}", "retry")


def _since_start(phase: str, events: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    recent: list[dict[str, Any]] = []
    for event in events:
        if event.get("type") == _STARTED.get(phase):
            return recent
        recent.append(event)
    return recent


def _text(event: dict[str, Any]) -> str:
    description = str(event.get("description") or "").strip()
    return f"{event.get('type')}: {description}" if description else str(event.get("type"))


def _failed(machine: Machine, symptom: str, evidence: str, action: str) -> Finding:
    return Finding("install", "fail", symptom, f"MAAS machine {label(machine)}", evidence, action)


def _refuse(machine: Machine, symptom: str, evidence: str) -> Step:
    finding = Finding("install", "fail", symptom, f"MAAS machine {label(machine)}", evidence, "escalate")
    return Step(FAIL, status_name(machine), finding=finding)
