"""The database below the ledger: how it is opened, how writers wait for one another, how errors and URLs are told."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, unquote_plus

import sqlalchemy
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from ..errors import FirstlightError, InputError
from ..findings import shorten

DATABASES = ("sqlite", "postgresql")
# What a URL's query may hold that everyone may read; every other value is hidden.
_PLAIN = frozenset(
    {
        "host", "hostaddr", "port", "user", "dbname", "application_name", "connect_timeout", "sslmode", "sslrootcert",
        "gssencmode", "channel_binding", "target_session_attrs", "load_balance_hosts",
    }
)  # fmt: skip
_HIDDEN = "***"
_WRITING = 0x66697273746C6967  # which lock of a PostgreSQL database is that of the ledger's writers


# -- the URL ------------------------------------------------------------------------------------------------------


def parsed(url: str) -> sqlalchemy.URL:
    """The parts of a ledger's URL. InputError, one line without its password, when it is none or can hold no ledger."""
    try:
        found = sqlalchemy.make_url(url)
    except (SQLAlchemyError, ValueError):  # a port that is no number is a ValueError
        said = "not a URL of a database; write a file name, or postgresql+psycopg://USER@HOST:PORT/DATABASE"
        raise InputError(f"ledger {shown(url)}: {said}") from None
    if found.get_backend_name() not in DATABASES:
        raise InputError(f"ledger {shown(url)}: only SQLite and PostgreSQL hold a ledger")
    if found.get_backend_name() == "sqlite":
        if "?" in url or found.host or found.username or found.password:
            raise InputError(f"ledger {shown(url)}: of SQLite write the file's name alone, and no ? in it")
    elif "@" in f"{found.host}{found.database}":  # the rest of a password, which the driver would show
        said = "in a user's name or a password an @ is written %40, a / %2F"
        raise InputError(f"ledger {shown(url)}: {said}; better keep the password in ~/.pgpass")
    return found


def engine(url: str) -> sqlalchemy.Engine:
    """An engine for the ledger at ``url``, not connected yet; InputError, one line, where the URL makes none."""
    parts = parsed(url)
    try:
        # no pool: plugins fork, and a connection must not be shared across a fork
        made = sqlalchemy.create_engine(parts, poolclass=NullPool, connect_args=connect_args(url))
    except ImportError as error:
        raise InputError(f"ledger {shown(url)}: {error}; see docs/ledger.md for the driver to install") from None
    except (SQLAlchemyError, ValueError, TypeError) as error:
        said = f"{reason(error, url)}; write a file name or an SQLAlchemy URL"
        raise InputError(f"ledger {shown(url)}: {said}") from None
    if made.dialect.is_async:
        raise InputError(f"ledger {shown(url)}: {made.dialect.driver} is not of use here; write postgresql+psycopg://")
    return made


def engine_to_read(file: Path, error: DBAPIError) -> sqlalchemy.Engine | None:
    """For a file that SQLite cannot open because it cannot write beside it, as WAL has it; None where that is not so.

    Without a -wal nobody writes to it, and nothing is missing in it. FirstlightError: there is one.
    """
    code = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF  # the rest of it says more of the same
    if code not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY) or not os.access(file, os.R_OK):
        return None
    if os.access(file.parent, os.W_OK):
        return None
    left = file.with_name(f"{file.name}-wal")
    if left.exists() and left.stat().st_size:
        raise FirstlightError(
            f"ledger {file} cannot be read where nothing can be written: its last changes are in {left.name}; copy "
            "both into one folder that can be written to"
        )
    words = f"file:{quote(str(file))}?mode=ro&immutable=1"
    return sqlalchemy.create_engine(
        f"sqlite:///{file}", poolclass=NullPool, creator=lambda: sqlite3.connect(words, uri=True)
    )


def shown(url: str) -> str:
    """The URL for people, without its password and without whatever may be a part of one."""
    if "://" not in url:
        return "(not a URL)"
    scheme, _, rest = url.partition("://")
    if not re.fullmatch(r"[\w+]+", scheme):
        return "(not a URL)"
    if scheme.partition("+")[0] == "sqlite" and "?" not in rest and rest.startswith("/"):
        return url  # a file
    try:
        parts = sqlalchemy.make_url(url)
    except (SQLAlchemyError, ValueError):
        parts = None
    if parts is None or "@" in f"{parts.host}{parts.database}":  # where the password ends is not sure
        told, mark, query = rest.partition("?")
        _, at, after = told.rpartition("@")
        # without an @ what stands after a colon may be a password, too
        place = f"{_HIDDEN}@{after}" if at else re.sub(r":.*", f":{_HIDDEN}", told, flags=re.DOTALL)
        return f"{scheme}://{place}" + (f"?{_query(query)}" if mark else "")
    told = parts.set(query={}).render_as_string(hide_password=True)
    _, mark, query = rest[_end_of_login(rest) :].partition("?")
    return told + (f"?{_query(query)}" if mark else "")


def _end_of_login(rest: str) -> int:
    """Where the host begins, as SQLAlchemy sees it, in what stands after ``://``."""
    login = re.match(r"[^:/]*(:[^@]*)?@", rest)
    return login.end() if login else 0


def _query(text: str) -> str:
    """A query for people: keys, and the values of those in _PLAIN."""
    pairs = []
    for pair in text.split("&"):
        key, equals, value = pair.partition("=")
        plain = unquote_plus(key) in _PLAIN and "@" not in unquote_plus(value)
        pairs.append(pair if equals and plain else f"{key}={_HIDDEN}" if equals else _HIDDEN)
    return "&".join(pairs)


def _secrets(url: str) -> set[str]:
    """The texts in a URL that nobody is to read, as they are and as they are written there."""
    if "://" not in url:
        return set()
    rest = url.partition("://")[2]
    login = rest[: _end_of_login(rest)].removesuffix("@")
    found = {login.partition(":")[2]}
    query = rest[_end_of_login(rest) :].partition("?")[2]
    found |= {value for key, value in parse_qsl(query) if key not in _PLAIN}
    found |= {pair.partition("=")[2] for pair in query.split("&") if unquote_plus(pair.partition("=")[0]) not in _PLAIN}
    return {form for text in found for form in (text, unquote(text)) if form}


def is_text(text: str) -> bool:
    """Whether a database holds such a text, and can be asked for it: no lone surrogate, no NUL."""
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


# -- the database -------------------------------------------------------------------------------------------------


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


def reason(error: Exception, url: str = "") -> str:
    """The database's own words, on one line; an SQLAlchemy error also holds the statement and its values.

    url: that of the ledger; its password is taken out of the words.
    """
    said = str(getattr(error, "orig", None) or getattr(error, "strerror", None) or error)
    for secret in sorted(_secrets(url), key=len, reverse=True):
        said = said.replace(secret, _HIDDEN)
    return shorten(said, 200)
