"""What comes next for a machine: a pure judgement over what MAAS says of it."""

from __future__ import annotations

from dataclasses import dataclass

from ..findings import Finding
from . import machines as m
from .machines import Machine, is_locked, label, status_name, status_of, tags_of, text_of
from .reasons import error_text

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


def next_step(machine: Machine, retries_left: int, us: str | None = None, commission_first: bool = False) -> Step:
    """What to do with a machine of the fleet on its way to Deployed.

    us: our user in MAAS, needed for machines of status allocated or reserved alone (ask ``owner_matters``).
    commission_first: MAAS knows other disks than there are; a Ready machine is not deployed on what it says.
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
        return Step(COMMISSION, "its drives were replaced") if commission_first else Step(DEPLOY, "ready")
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
        said = f"{label(machine)} is marked broken in MAAS: {error_text(machine)}"
        return _refuse(
            machine, "maas.broken", f"{said}; once it is repaired, mark it fixed there (Actions, Mark fixed)"
        )
    said = f"{label(machine)} is {status_name(machine)} in MAAS: {error_text(machine)}"
    return _refuse(machine, "maas.not_installable", said)


def owner_matters(machine: Machine) -> bool:
    return status_of(machine) in (m.ALLOCATED, m.RESERVED)


def _refuse(machine: Machine, symptom: str, evidence: str) -> Step:
    finding = Finding("install", "fail", symptom, f"MAAS machine {label(machine)}", evidence, "escalate")
    return Step(FAIL, status_name(machine), finding=finding)
