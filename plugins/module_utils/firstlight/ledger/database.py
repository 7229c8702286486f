"""The database below the ledger: how it is opened, whether it is ours, how its errors and addresses are told."""

from __future__ import annotations

from typing import Any

import sqlalchemy
from sqlalchemy.exc import ArgumentError

from ..errors import FirstlightError
from ..findings import shorten
from .models import Base


def connect_args(url: str) -> dict[str, Any]:
    return {"timeout": 30} if url.startswith("sqlite") else {}


def sqlite_settings(connection: Any, _record: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.close()


def refuse_other_schema(engine: sqlalchemy.Engine, name: str) -> None:
    """A table that lacks a column was made by another release; found out before anything is done."""
    inspector = sqlalchemy.inspect(engine)
    there = set(inspector.get_table_names())
    for table in Base.metadata.sorted_tables:
        if table.name not in there:
            continue
        lacking = {c.name for c in table.columns} - {c["name"] for c in inspector.get_columns(table.name)}
        if lacking:
            raise FirstlightError(
                f"ledger {name} was made by another release of Firstlight: table {table.name} has no column "
                f"{min(lacking)}; use that release, or move the ledger away to begin a new one"
            )


def reason(error: Exception) -> str:
    """The database's own words, on one line; an SQLAlchemy error also holds the statement and its values."""
    return shorten(str(getattr(error, "orig", None) or getattr(error, "strerror", None) or error), 200)


def shown(url: str) -> str:
    try:
        return sqlalchemy.make_url(url).render_as_string(hide_password=True)
    except ArgumentError:
        return "(not a URL)"
