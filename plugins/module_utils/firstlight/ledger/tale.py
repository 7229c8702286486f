"""One host's story from beginning to end, and all hosts in short: what ``scripts/ledger`` shows. Read-only."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from ..errors import InputError
from ..findings import shorten
from .database import is_text
from .models import Base, Deed, FindingRow, Host, PartRow, Run, StageRun, StateChange, TicketRow
from .store import Ledger
from .tickets import from_row

SHOWN = 8  # of each list, so that a host's story fits on a screen
_PLACE = ("name", "service_tag", "site", "rack", "unit", "profile", "state")


def host_tale(ledger: Ledger, key: str) -> dict[str, Any]:
    """All that the ledger has of the host with this name or service tag, as plain values, each list oldest first.

    Keys: those of _PLACE, ``held`` (by whom, and why, or None), and ``changes`` of its state, ``stages``, ``findings``,
    ``deeds``, ``parts``, lists of rows as in models.py, with ``run``: {id, playbook, operator} or None in place of
    run_id; ``tickets`` as ``Ticket.to_dict``. InputError: there is no such host.
    """
    with ledger._reading() as session:
        query = select(Host).order_by(Host.id)
        host = session.scalars(query.filter_by(name=key)).first() if is_text(key) else None
        if host is None and is_text(key):
            host = session.scalars(query.filter_by(service_tag=key)).first()
        if host is None:
            raise InputError(f"the ledger knows no host with the name or service tag {shorten(key, 64)}")
        tickets = select(TicketRow).filter_by(host_id=host.id)
        return {
            **{field: getattr(host, field) for field in _PLACE},
            "held": host.held,
            "changes": _rows(session, StateChange, host),
            "stages": _rows(session, StageRun, host),
            "findings": _rows(session, FindingRow, host),
            "deeds": _rows(session, Deed, host),
            "parts": _rows(session, PartRow, host),
            "tickets": [from_row(row).to_dict() for row in session.scalars(tickets.order_by(TicketRow.id))],
        }


def all_hosts(ledger: Ledger, states: Collection[str] = ()) -> list[dict[str, Any]]:
    """Every host (in one of these states) by its place.

    Keys: those of _PLACE, ``since`` (when its state changed last, or None), ``held`` (how many findings say no now).
    """
    moved = select(StateChange.host_id, func.max(StateChange.at).label("at")).group_by(StateChange.host_id).subquery()
    counted = select(FindingRow.host_id, func.count().label("held")).group_by(FindingRow.host_id)
    said_no = counted.where(FindingRow.cleared.is_(None), FindingRow.status.in_(("fail", "unknown"))).subquery()
    query = select(Host, moved.c.at, said_no.c.held).order_by(Host.site, Host.rack, Host.unit, Host.name, Host.id)
    query = query.outerjoin(moved, moved.c.host_id == Host.id).outerjoin(said_no, said_no.c.host_id == Host.id)
    if states:
        query = query.where(Host.state.in_(states))
    with ledger._reading() as session:
        return [
            {**{field: getattr(host, field) for field in _PLACE}, "since": at, "held": held or 0}
            for host, at, held in session.execute(query)
        ]


def _rows(session: Session, model: type[Base], host: Host) -> list[dict[str, Any]]:
    table = model.__table__
    query = select(table, Run.playbook, Run.operator).outerjoin(Run, Run.id == table.c.run_id)
    found = []
    for row in session.execute(query.where(table.c.host_id == host.id).order_by(table.c.id)).mappings():
        run = {"id": row["run_id"], "playbook": row["playbook"], "operator": row["operator"]}
        known = {c.name: row[c.name] for c in table.columns if c.name not in ("id", "host_id", "run_id")}
        found.append({**known, "run": run if row["run_id"] else None})
    return found


# -- for people -------------------------------------------------------------------------------------------------------


def tale_lines(tale: dict[str, Any], *, everything: bool = False) -> Iterator[str]:
    """A host's story for people; the latest SHOWN of each list unless ``everything``."""
    name, tag = tale["name"] or "(its name went to another machine)", tale["service_tag"] or "service tag not known"
    yield _line(f"{name}: {tag}, {_place(tale)}, profile {tale['profile']}: {tale['state']}", 0)
    if tale["held"]:
        yield _line(f"held out of use by {tale['held']}")
    told = [f for f in tale["findings"] if f["status"] != "ok"]
    held, gone = [f for f in told if not f["cleared"]], [f for f in told if f["cleared"]]
    lists = (
        (
            "states",
            [f"{_at(c['at'])}  {c['before']} -> {c['after']}, by {c['who']}: {c['why']}" for c in tale["changes"]],
        ),
        ("stages", [_stage(s) for s in tale["stages"]]),
        ("findings that hold", [f"{_seen(f)}{_finding(f)}" for f in held]),
        ("findings that went", [f"{_seen(f)}, cleared {_at(f['cleared'])}{_finding(f)}" for f in gone]),
        ("tickets", [_ticket(t) for t in tale["tickets"]]),
        ("parts replaced", [_part(p) for p in tale["parts"]]),
        ("deeds", [f"{_at(d['at'])}  {d['what']}{_run(d)}" for d in tale["deeds"]]),
    )
    for title, lines in lists:
        left_out = 0 if everything else max(0, len(lines) - SHOWN)
        yield ""
        yield f"{title}: {'none' if not lines else f'{left_out} earlier ones: --all' if left_out else ''}".rstrip(": ")
        yield from (_line(line) for line in lines[left_out:])


def host_lines(hosts: list[dict[str, Any]]) -> Iterator[str]:
    """All hosts for people, one a line."""
    for host in hosts:
        name, tag = shorten(host["name"] or "-", 64), shorten(host["service_tag"] or "-", 64)
        held = f"  against it: {host['held']}" if host["held"] else ""
        since = f"since {_at(host['since'])}" if host["since"] else ""
        yield f"{name:16} {tag:14} {shorten(_place(host), 80):24} {host['state']:12} {since}{held}".rstrip()


def _line(text: str, indent: int = 4) -> str:
    return " " * indent + shorten(text, 400)


def _place(host: dict[str, Any]) -> str:
    return f"rack {host['rack'] or '-'} unit {'-' if host['unit'] is None else host['unit']}"


def _stage(row: dict[str, Any]) -> str:
    seconds = "" if row["seconds"] is None else f" in {row['seconds']:.1f} s"
    return f"{_at(row['started'])}  {row['stage']} {row['result'] or 'goes on, or was killed'}{seconds}{_run(row)}"


def _finding(row: dict[str, Any]) -> str:
    what = f"{row['symptom']} {row['locator']}".rstrip()
    return f"  {row['status']} {row['stage']} {what}: {row['evidence']} ({row['action']})"


def _ticket(ticket: dict[str, Any]) -> str:
    said = f"{_at(ticket['opened'])}  {ticket['id']} {ticket['state']}: {ticket['action']} {ticket['cause']['kind']}"
    last = ticket["history"][-1] if ticket["history"] else None
    return f"{said} {ticket['cause']['part']}".rstrip() + (f"; {_at(last['at'])} {last['what']}" if last else "")


def _part(row: dict[str, Any]) -> str:
    change = f"{row['removed'] or 'none'} -> {row['installed'] or 'none'}"
    return f"{_at(row['at'])}  {row['kind']} {row['locator']}: {change}{_run(row)}"


def _seen(row: dict[str, Any]) -> str:
    first, last = _at(row["first_seen"]), _at(row["last_seen"])
    return first if first == last else f"{first} to {last}"


def _run(row: dict[str, Any]) -> str:
    run = row["run"]
    return f" (run {run['id']}, {run['playbook'] or 'a playbook'}, {run['operator']})" if run else ""


def _at(text: str) -> str:
    """UTC to the second."""
    return shorten(text, 40)[:19].replace("T", " ")
