"""How a host stands: its state, who holds it, and what moves it from one state to another.

Each function works within a transaction of ``Ledger``.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from ..errors import FirstlightError
from ..findings import shorten
from .models import Deed, FindingRow, Host, StageRun, StateChange

STATES = (
    "planned",
    "discovered",
    "enlisted",
    "installing",
    "installed",
    "configured",
    "ready",
    "quarantined",
    "in_repair",
)
# each stage, and the state of a host that passed it
STATE_AFTER = {
    "discover": "discovered",
    "enlist": "enlisted",
    "install": "installed",
    "configure": "configured",
    "smoke": "ready",
}
STAGES = tuple(STATE_AFTER)
READY, QUARANTINED, IN_REPAIR = "ready", "quarantined", "in_repair"
BEFORE_READY = "configured"
OUT = (QUARANTINED, IN_REPAIR)  # of use


def move(session: Session, host: Host, state: str, why: str, at: str, who: str, run_id: int | None) -> None:
    if state not in STATES:
        raise ValueError(f"{state!r} is no state")
    if host.state != state:
        change = StateChange(host_id=host.id, run_id=run_id, at=at, before=host.state, after=state, who=who, why=why)
        session.add(change)
        host.state = state


def may_reach(host: Host, state: str) -> bool:
    """Whether a stage that was passed moves a host there.

    Forward only. Out of quarantine leads nothing but the last stage, and out of a hold or of repair no stage at all.
    """
    if host.held or host.state == IN_REPAIR:
        return False
    if host.state == QUARANTINED:
        return state == READY
    return STATES.index(state) > STATES.index(host.state)


def is_back(host: Host, state: str) -> bool:
    """Whether this is a step back for a host that is not out of use."""
    return host.state not in OUT and not host.held and STATES.index(state) < STATES.index(host.state)


def refuse_readmission(session: Session, host: Host) -> None:
    """FirstlightError, one line, when the host is not out of use, or there is a stage that it has not passed."""
    if host.state not in OUT and not host.held:
        raise FirstlightError(f"{host.name} is {host.state}: there is nothing to readmit; nothing was done")
    for stage in STAGES:
        last = latest(session, host.id, stage)
        if last is not None and last.result == "passed":
            continue
        how = {"failed": "failed", "undone": "was undone: the machine was released"}
        said = "it did not go through" if last is None else how.get(last.result or "", "was begun and not ended")
        said = f"{said} {stage}" if last is None else f"its last {stage} {said}"
        if last is not None and last.result == "failed":
            held = select(FindingRow.symptom).filter_by(host_id=host.id, stage=stage, cleared=None)
            against = held.where(FindingRow.status.in_(("fail", "unknown"))).order_by(FindingRow.status).limit(1)
            symptom = session.scalars(against).first()
            said += f" ({shorten(symptom, 64)})" if symptom else ""
        raise FirstlightError(
            f"{host.name} cannot be readmitted: {said}; playbooks/reprovision.yml -e host={host.name} takes it "
            "through all stages"
        )


def installing(session: Session, hosts: Iterable[Host]) -> set[str]:
    """Those that were being installed when the run that did it ended.

    One that is out of use keeps its state meanwhile; of it the deed tells.
    """
    found = set()
    for host in hosts:
        if host.state == "installing":
            found.add(str(host.name))
        elif host.state in OUT or host.held:
            query = select(func.max(Deed.at)).where(Deed.host_id == host.id, Deed.what.startswith("deploy "))
            begun = session.scalars(query).first()
            ends = select(func.max(StageRun.ended)).filter_by(host_id=host.id, stage="install")
            ended = session.scalars(ends.where(StageRun.result.in_(("passed", "undone")))).first()
            if begun and begun > (ended or ""):
                found.add(str(host.name))
    return found


def latest(session: Session, host_id: int, stage: str) -> StageRun | None:
    """A host's last way through a stage."""
    query = select(StageRun).filter_by(host_id=host_id, stage=stage).order_by(StageRun.id.desc())
    return session.scalars(query).first()
