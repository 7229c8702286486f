"""The ledger's tables through the releases: made where there are none, brought up to this release, never back.

One transaction, and one process at a time: others wait, and find it done.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import sqlalchemy
from sqlalchemy import Column, MetaData, PrimaryKeyConstraint, String, Table

from ..errors import FirstlightError
from .database import lock_for_writing, reason
from .models import Base

REVISIONS = ("0001", "0002", "0003", "0004")  # those of migrations/, in order; the last one is that of models.py
HEAD = REVISIONS[-1]
# Until 0002 no ledger noted its revision.
_UNNOTED = frozenset({"host", "run", "stage_run", "finding", "state_change", "deed", "reading"})
_NOTE = Table(  # as Alembic makes it
    "alembic_version",
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
_EMPTY, _UNFINISHED = "empty", "unfinished"


def bring_up(engine: sqlalchemy.Engine, name: str) -> str:
    """Make or upgrade the tables; a line about it for people where a ledger was upgraded, else "".

    name: how the ledger is called in messages. FirstlightError, and nothing changed, when it is of a newer release or
    no copy of its file can be kept.
    """
    with engine.connect() as connection:
        if _noted(connection, name) == HEAD:
            return ""
    copy: Path | None = None
    try:
        with engine.begin() as connection:
            lock_for_writing(connection)
            noted = _noted(connection, name)
            before = noted or _recognised(connection)
            if before == HEAD and noted:
                return ""  # another process was faster
            if before == _EMPTY:
                Base.metadata.create_all(connection)
                _note(connection, HEAD)
                return ""
            if not noted and before != _UNFINISHED:
                _note(connection, before)
            if before != HEAD:
                copy = _copy(engine, name)
                _upgrade(connection, name)
            if not noted:
                _refuse_other_tables(connection, name)
    except BaseException:
        if copy:
            copy.unlink(missing_ok=True)  # the ledger is as it was
        raise
    if before == HEAD:
        return ""
    kept = f"; as it was it is kept in {copy}" if copy else ""
    return f"ledger {name} was brought from revision {before} to {HEAD}{kept}"


def too_old(engine: sqlalchemy.Engine, name: str) -> str:
    """Why a reader cannot read this ledger, "" when it can. FirstlightError: it is of a newer release."""
    with engine.connect() as connection:
        noted = _noted(connection, name)
        before = noted or _recognised(connection)
        if before in (HEAD, _EMPTY):  # what is not there yet is told by whoever looks for it
            if before == HEAD and not noted:
                _refuse_other_tables(connection, name)
            return ""
        return f"ledger {name} is of an older release of Firstlight; the next run that is not a check upgrades it"


def _noted(connection: sqlalchemy.Connection, name: str) -> str | None:
    """The revision that the ledger notes, None where it notes none."""
    if not sqlalchemy.inspect(connection).has_table(_NOTE.name):
        return None
    noted = connection.execute(sqlalchemy.select(_NOTE.c.version_num).limit(2)).scalars().all()
    if len(noted) > 1 or (noted and noted[0] not in REVISIONS):
        raise FirstlightError(
            f"ledger {name} was made by a newer release of Firstlight (revision {', '.join(map(repr, noted))}; "
            f"this one knows {HEAD}); use that release"
        )
    return noted[0] if noted else None


def _recognised(connection: sqlalchemy.Connection) -> str:
    """The revision of a ledger that notes none; _UNFINISHED where whoever made it was killed over that."""
    lacking = _UNNOTED - set(sqlalchemy.inspect(connection).get_table_names())
    if lacking == _UNNOTED:
        return _EMPTY
    return {frozenset(): "0002", frozenset({"reading"}): "0001"}.get(lacking, _UNFINISHED)


def _note(connection: sqlalchemy.Connection, revision: str) -> None:
    _NOTE.create(connection, checkfirst=True)
    connection.execute(_NOTE.insert().values(version_num=revision))


def _upgrade(connection: sqlalchemy.Connection, name: str) -> None:
    try:
        from .migrations import upgrade  # see there why not at the top
    except ImportError as error:
        raise FirstlightError(f"ledger {name} cannot be upgraded: {error}; run scripts/venv") from None
    upgrade(connection)


def _refuse_other_tables(connection: sqlalchemy.Connection, name: str) -> None:
    """A table that lacks a column is of no release; found out before anything is done."""
    inspector = sqlalchemy.inspect(connection)
    for table in Base.metadata.sorted_tables:
        lacking = {c.name for c in table.columns} - {c["name"] for c in inspector.get_columns(table.name)}
        if lacking:
            raise FirstlightError(
                f"ledger {name} was made by another release of Firstlight: table {table.name} has no column "
                f"{min(lacking)}; use that release, or move the ledger away to begin a new one"
            )


def _copy(engine: sqlalchemy.Engine, name: str) -> Path | None:
    """Copy an SQLite file beside itself, as it is before the transaction that goes on; None for another database."""
    if engine.dialect.name != "sqlite" or engine.url.database in (None, "", ":memory:"):
        return None
    file = Path(str(engine.url.database))
    copy = file.with_name(f"{file.name}.before-{HEAD}-{datetime.now(UTC):%Y%m%dT%H%M%S%f}")
    part = copy.with_name(f"{copy.name}.part")
    try:
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        with contextlib.closing(sqlite3.connect(file)) as source, contextlib.closing(sqlite3.connect(part)) as target:
            source.backup(target)
            target.execute("PRAGMA journal_mode=DELETE")  # one file, whole in itself
        shutil.copymode(file, part)
        part.replace(copy)
    except (OSError, sqlite3.Error) as error:
        part.unlink(missing_ok=True)
        raise FirstlightError(f"ledger {name} was not upgraded, no copy of it can be kept: {reason(error)}") from None
    return copy
