"""Parts of machines that were replaced."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import func, select

from ..errors import FirstlightError
from ..findings import shorten
from .models import Host, PartRow, StageRun
from .store import Ledger, now


def note_part(ledger: Ledger, name: str, kind: str, locator: str, removed: str, installed: str) -> bool:
    """A part of this host is another one than before; False where that was the last thing noted of this place.

    kind: ``gpu``, ``drive``, ... removed, installed: serial numbers, "" where there was none. FirstlightError: the
    ledger does not know the host.
    """
    row = PartRow(
        kind=shorten(kind, 32),
        locator=shorten(locator, 120),
        removed=shorten(removed, 120),
        installed=shorten(installed, 120),
    )
    with ledger._transaction() as session:
        host = ledger._find(session, name, None)
        if host is None:
            raise FirstlightError(f"the ledger does not know host {name}; run playbooks/validate.yml first")
        here = select(PartRow).filter_by(host_id=host.id, kind=row.kind, locator=row.locator)
        last = session.scalars(here.order_by(PartRow.id.desc())).first()
        if last is not None and (last.removed, last.installed) == (row.removed, row.installed):
            return False
        row.host_id, row.run_id, row.at = host.id, ledger.run_id, now()
        session.add(row)
        return True


def parts_of(ledger: Ledger, name: str) -> list[dict[str, Any]]:
    """What was replaced in the machine that has this name, oldest first: at, kind, locator, removed, installed."""
    with ledger._reading() as session:
        host = ledger._find(session, name, None)
        if host is None:
            return []
        rows = session.scalars(select(PartRow).filter_by(host_id=host.id).order_by(PartRow.id))
        return [{f: getattr(row, f) for f in ("at", "kind", "locator", "removed", "installed")} for row in rows]


def replaced_since_installed(ledger: Ledger, names: Iterable[str], kind: str) -> set[str]:
    """Those of these hosts of which a part of this kind was replaced after they passed install last."""
    passed = select(StageRun.host_id, func.max(StageRun.ended).label("ended")).group_by(StageRun.host_id)
    last = passed.where(StageRun.stage == "install", StageRun.result == "passed").subquery()
    with ledger._reading() as session:
        rows = select(Host.name).join(PartRow, PartRow.host_id == Host.id)
        rows = rows.outerjoin(last, last.c.host_id == Host.id).where(PartRow.kind == kind)
        found = session.scalars(rows.where(PartRow.at > func.coalesce(last.c.ended, "")).distinct())
        return {str(name) for name in found if name} & set(names)
