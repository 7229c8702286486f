"""What the checks of a host read, kept for its next run and to compare hosts by: the table ``reading``.

Each function works within a transaction of ``Ledger``. A reading is of the machine, whatever its name is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from .models import Host, Reading

VALUES = "values"  # by check what hosts are compared by; every other kind is a key of a memory (health/earlier.py)


def write(session: Session, host: Host, readings: Mapping[str, Any], at: str) -> None:
    """These kinds are so from now on; others stay."""
    rows = {row.kind: row for row in session.scalars(select(Reading).filter_by(host_id=host.id))}
    for kind, value in readings.items():
        row = rows.get(kind)
        if row is None:
            row = Reading(host_id=host.id, kind=kind)
            session.add(row)
        row.value, row.at = json.dumps(value), at


def of_hosts(session: Session, hosts: Iterable[Host]) -> dict[str, dict[str, Any]]:
    """By name all readings of these hosts by kind; one that somebody else damaged is left out."""
    names = {host.id: host.name for host in hosts}
    found: dict[str, dict[str, Any]] = {name: {} for name in names.values() if name}
    for row in session.scalars(select(Reading).order_by(Reading.id)):
        name, value = names.get(row.host_id), _value(row)
        if name and value is not None:
            found[name][row.kind] = value
    return found


def values(session: Session) -> dict[str, dict[str, Any]]:
    """By name of every host that has some: its profile, and its values by their names."""
    query = select(Host, Reading).where(Reading.host_id == Host.id, Reading.kind == VALUES, Host.name.is_not(None))
    found = {}
    for host, row in session.execute(query):
        by_check = _value(row)
        if isinstance(by_check, dict):
            flat = {name: value for told in by_check.values() if isinstance(told, dict) for name, value in told.items()}
            found[str(host.name)] = {"profile": host.profile, "values": flat}
    return found


def forget(session: Session, host: Host) -> None:
    session.execute(delete(Reading).where(Reading.host_id == host.id))


def _value(row: Reading) -> Any:
    try:
        return json.loads(row.value)
    except (ValueError, RecursionError):
        return None
