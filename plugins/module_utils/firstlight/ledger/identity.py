"""Which machine has which name: what the fleet file says, and what BMCs say.

Each function works within a transaction of ``Ledger``.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import select
from sqlalchemy.orm import Session

from ..sitefiles import PlannedHost
from . import standing
from .models import Base, Host, StageRun


def planned(session: Session, host: PlannedHost) -> Host | None:
    """The machine that is meant by a line of the fleet file; None where it is a new one.

    A tag in the file decides, unless the BMC of that name has said another one since the file says so.
    """
    named, tagged = _named(session, host.name), _tagged(session, host.service_tag)
    if named is not None and named.service_tag and (named.planned_tag or None) == (host.service_tag or None):
        return named
    if tagged is not None and tagged is not named and tagged.name and is_contradicted(tagged):
        return named  # the BMC of another name has said this tag
    return tagged or named


def take_name(session: Session, host: Host, name: str, at: Callable[[], str], who: str, run_id: int | None) -> None:
    """A name belongs to one machine: whoever had it before keeps the history, not the name.

    A machine that had none was away. If it was ready when it went, smoke says whether it is still.
    """
    named = _named(session, name)
    if named is not None and named is not host:
        named.name = None
        session.flush()
    if host.id is not None and host.name is None and host.state == standing.READY:
        why = f"it was away, and is {name} now; smoke makes it ready"
        standing.move(session, host, standing.BEFORE_READY, why, at(), who, run_id)
    host.name = name


def take_tag(session: Session, host: Host, tag: str) -> None:
    if _tagged(session, tag) is None:
        host.service_tag = tag


def exchange(session: Session, named: Host, tag: str, at: Callable[[], str], who: str, run_id: int | None) -> None:
    """In the place of ``named`` a machine with this tag has answered: name, place and stage are its from now on.

    If that machine had another name, one that is not known yet has that until its BMC says which it is.
    """
    name, host = str(named.name), _tagged(session, tag)
    if host is None and named.service_tag is None:
        named.service_tag = tag
        return
    if host is None:
        host = Host(service_tag=tag, state="planned")
    session.add(host)
    session.flush()
    had = host.name
    if had:
        host.name = None
        session.flush()
        left = Host(state="planned", name=had)
        session.add(left)
        session.flush()
        _pass_on(session, host, left, run_id)
    named.name = None
    session.flush()
    if had:
        host.name = name  # it was not away
    take_name(session, host, name, at, who, run_id)
    session.flush()
    _pass_on(session, named, host, run_id)
    if named.service_tag is None and not _has_history(session, named):
        session.delete(named)


def is_contradicted(host: Host) -> bool:
    """Whether the fleet file says another tag of this machine's name than its BMC."""
    return bool(host.planned_tag and host.service_tag and host.planned_tag != host.service_tag)


def stands_for_ready(session: Session, host: Host) -> bool:
    """Whether jobs are planned on this machine by a mistake: it has answered in the place of one that is ready."""
    meant = _tagged(session, host.planned_tag) if is_contradicted(host) else None
    return meant is not None and meant.name is None and meant.state == standing.READY


def _pass_on(session: Session, one: Host, other: Host, run_id: int | None) -> None:
    """The place, what the fleet file says, and the stage that this run has let it into."""
    for field in ("site", "rack", "unit", "profile", "planned_tag"):
        setattr(other, field, getattr(one, field))
    one.planned_tag = None
    for row in session.scalars(select(StageRun).filter_by(host_id=one.id, run_id=run_id, result=None)):
        row.host_id = other.id
    session.flush()


def _has_history(session: Session, host: Host) -> bool:
    tables = [table for table in Base.metadata.sorted_tables if "host_id" in table.c]
    return any(session.execute(select(t.c.id).where(t.c.host_id == host.id).limit(1)).first() for t in tables)


def _named(session: Session, name: str) -> Host | None:
    return session.scalars(select(Host).filter_by(name=name)).first()


def _tagged(session: Session, tag: str | None) -> Host | None:
    return session.scalars(select(Host).filter_by(service_tag=tag)).first() if tag else None
