"""What a repair of a host has come to, as the ledger knows it: so that a repair that was broken off goes on.

A repair begins with a deed and goes on until the host is ready; the machine is installed once in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from ..findings import Finding, shorten
from ..repair import Parts
from . import holding
from .models import Deed, Host, Run, StageRun, StateChange
from .readings import PARTS
from .standing import IN_REPAIR, READY, latest
from .store import Ledger, now

BEGUN = "reprovision begun: "
GOES_ON = "reprovision goes on: "
PLAYBOOK = "reprovision.yml"
STAGE = "repair"  # of findings that no stage has
A_RUN_AT_MOST = timedelta(days=1)  # a run that was killed has no end in the ledger


@dataclass(frozen=True)
class Repair:
    """begun: when, ISO 8601. deployed: when a deploy was asked for since, or "". installed: when that was done, or "".

    tried: the installation came to an end, good or bad; false while it goes on, also where its run was killed.
    """

    begun: str
    deployed: str = ""
    installed: str = ""
    tried: bool = False

    @property
    def installing(self) -> bool:
        return bool(self.deployed)


def current(ledger: Ledger, name: str) -> Repair | None:
    """The repair that this host is in; None where none was begun since it was ready last."""
    with ledger._reading() as session:
        host = ledger._find(session, name, None)
        if host is None:
            return None
        deeds = select(func.max(Deed.at)).where(Deed.host_id == host.id)
        begun = session.scalars(deeds.where(Deed.what.startswith(BEGUN))).first()
        if not begun or begun < _last(session, host, READY):
            return None
        deployed = session.scalars(deeds.where(Deed.what.startswith("deploy "))).first() or ""
        last = latest(session, host.id, "install")
        if deployed < begun or last is None or last.started < begun:
            # without a deploy what was passed is what was installed before
            return Repair(begun, deployed if deployed >= begun else "")
        passed = last.result == "passed"
        return Repair(begun, deployed, (last.ended or "") if passed else "", passed or last.result == "failed")


def smoke_passed_at(ledger: Ledger, name: str) -> str:
    """When this host passed smoke last, "" for never."""
    with ledger._reading() as session:
        host = ledger._find(session, name, None)
        if host is None:
            return ""
        query = select(func.max(StageRun.ended)).filter_by(host_id=host.id, stage="smoke", result="passed")
        return session.scalars(query).first() or ""


def under_way(ledger: Ledger, but: str) -> list[str]:
    """Other hosts in repair whose run goes on. One that was killed counts for a day, or until it is started again."""
    with ledger._reading() as session:
        return _under_way(session, but)


def begin(ledger: Ledger, name: str, why: str, deed: str = "", most: int | None = None) -> list[str]:
    """Put a host into repair, where it stays until it is readmitted, whatever stages it goes through; note the deed.

    Where ``most`` others are under way it does nothing and returns those. Counted and written as one: of two runs that
    start at once the second sees the first. FirstlightError, one line, when the ledger does not know the host.
    """
    with ledger._transaction() as session:
        others = _under_way(session, name) if most is not None else []
        if most is not None and len(others) >= most:
            return others
        host = ledger._known(session, name)
        ledger._move(session, host, IN_REPAIR, shorten(why), now())
        if deed:
            session.add(Deed(host_id=host.id, run_id=ledger.run_id, at=now(), what=deed))
    return []


def _under_way(session: Session, but: str) -> list[str]:
    since = (datetime.now(UTC) - A_RUN_AT_MOST).isoformat(timespec="milliseconds")
    runs = select(Deed.host_id, func.max(Deed.run_id)).where(Deed.at >= since)
    runs = runs.where(Deed.what.startswith(BEGUN) | Deed.what.startswith(GOES_ON)).group_by(Deed.host_id)
    last = {row[0]: row[1] for row in session.execute(runs)}
    going = set(session.scalars(select(Run.id).where(Run.ended.is_(None), Run.id.in_(last.values()))))
    hosts = session.scalars(select(Host).where(Host.id.in_(last), Host.state == IN_REPAIR).order_by(Host.name))
    return [str(h.name) for h in hosts if h.name and h.name != but and last[h.id] in going]


def note_findings(ledger: Ledger, name: str, findings: Iterable[Finding]) -> None:
    """Exactly these hold of a host's repair from now on."""
    with ledger._transaction() as session:
        host = ledger._find(session, name, None)
        if host is not None:
            holding.replace(session, host, STAGE, list(findings), now(), ledger.run_id)


def parts_known(ledger: Ledger, names: Iterable[str]) -> dict[str, object]:
    """By name the parts of its machine as they were remembered; hosts of which nothing is known are left out."""
    known = ledger.remembered(names)
    return {name: readings[PARTS] for name, readings in known.items() if PARTS in readings}


def remember_parts(ledger: Ledger, parts: Mapping[str, Parts]) -> None:
    ledger.remember({name: {PARTS: told} for name, told in parts.items()})


def _last(session: Session, host: Host, state: str) -> str:
    """When the host came into this state last, "" for never."""
    query = select(func.max(StateChange.at)).filter_by(host_id=host.id, after=state)
    return session.scalars(query).first() or ""
