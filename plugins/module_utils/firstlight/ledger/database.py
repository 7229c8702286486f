"""The database below the ledger: how it is opened, how writers wait for one another, how errors and URLs are told."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy
from sqlalchemy.exc import ArgumentError

from ..findings import shorten

DATABASES = ("sqlite", "postgresql")
_WRITING = 0x66697273746C6967  # which lock of a PostgreSQL database is that of the ledger's writers


def connect_args(url: str) -> dict[str, Any]:
    return {"timeout": 30} if url.startswith("sqlite") else {"connect_timeout": 10}


def sqlite_settings(connection: Any, _record: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.close()


def lock_for_writing(connection: sqlalchemy.Connection) -> None:
    """Others that would write wait until this transaction ends; else two would read before either of them writes."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    else:
        connection.execute(sqlalchemy.select(sqlalchemy.func.pg_advisory_xact_lock(_WRITING)))


def begin_snapshot(connection: sqlalchemy.Connection) -> None:
    """All that is read in the transaction that begins now is as of one moment."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN")  # which Python leaves out before it reads
    else:
        connection.execution_options(isolation_level="REPEATABLE READ")


def count_on(connection: sqlalchemy.Connection, tables: Iterable[sqlalchemy.Table]) -> None:
    """New rows get ids after those that are there; PostgreSQL takes no note of ids that were given."""
    if connection.dialect.name == "postgresql":
        for table in tables:
            last = sqlalchemy.func.max(table.c.id)
            sequence = sqlalchemy.func.pg_get_serial_sequence(table.name, "id")
            connection.execute(sqlalchemy.select(sqlalchemy.func.setval(sequence, last)).select_from(table))


def reason(error: Exception) -> str:
    """The database's own words, on one line; an SQLAlchemy error also holds the statement and its values."""
    return shorten(str(getattr(error, "orig", None) or getattr(error, "strerror", None) or error), 200)


def shown(url: str) -> str:
    try:
        return sqlalchemy.make_url(url).render_as_string(hide_password=True)
    except ArgumentError:
        return "(not a URL)"
