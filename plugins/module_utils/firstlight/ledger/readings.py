"""What the checks of a host read, kept for its next run and to compare hosts by: the table ``reading``.

Each function works within a transaction of ``Ledger``. A reading is of the machine, whatever its name is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import delete, insert, select, update
from sqlalchemy.orm import Session

from .models import Host, Reading

VALUES = "values"  # by check what hosts are compared by; every other kind is a key of a memory (health/earlier.py)
GPU_SLOTS = "gpu_slots"  # by PCI address, see health/bmcslots.py
PARTS = "hardware"  # the parts of the machine, see repair.py: they outlive what is installed on it


def write(session: Session, hosts: Mapping[int, Mapping[str, Any]], at: str) -> None:
    """By host (its id) and kind what is so from now on; other kinds stay."""
    query = select(Reading.id, Reading.host_id, Reading.kind)
    there = {(host, kind): row for row, host, kind in session.execute(query)}
    fresh, changed = [], []
    for host, readings in hosts.items():
        for kind, value in readings.items():
            row = {"value": json.dumps(value), "at": at}
            if (host, kind) in there:
                changed.append({**row, "id": there[host, kind]})
            else:
                fresh.append({**row, "host_id": host, "kind": kind})
    if fresh:
        session.execute(insert(Reading), fresh)
    if changed:
        session.execute(update(Reading), changed)


def of_hosts(session: Session, hosts: Iterable[Host]) -> dict[str, dict[str, Any]]:
    """By name all readings of these hosts by kind; one that somebody else damaged is left out."""
    names = {host.id: host.name for host in hosts}
    found: dict[str, dict[str, Any]] = {name: {} for name in names.values() if name}
    for host, kind, text in session.execute(select(Reading.host_id, Reading.kind, Reading.value)):
        name = names.get(host)
        value = _value(text) if name else None
        if name and value is not None:
            found[name][kind] = value
    return found


def values(session: Session) -> dict[str, dict[str, Any]]:
    """By name of every host that has some: its profile, and its values by their names."""
    query = select(Host.name, Host.profile, Reading.value).where(
        Reading.host_id == Host.id, Reading.kind == VALUES, Host.name.is_not(None)
    )
    found = {}
    for name, profile, text in session.execute(query):
        by_check = _value(text)
        if isinstance(by_check, dict):
            flat = {name: value for told in by_check.values() if isinstance(told, dict) for name, value in told.items()}
            found[str(name)] = {"profile": profile, "values": flat}
    return found


def forget(session: Session, host: Host) -> None:
    """What its checks read; not which parts it has."""
    session.execute(delete(Reading).where(Reading.host_id == host.id, Reading.kind != PARTS))


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
