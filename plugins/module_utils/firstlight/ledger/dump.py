"""The whole ledger as JSON lines, and back into an empty one: for another database, another release, other programs.

The first line is ``{"firstlight_ledger": revision}``, then comes a row a line, ``{table: {column: value}}``, each after
those that it refers to and by growing id in its table, and last ``{"rows": number}``, by which a file that was cut off
is known.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import IO, Any

import sqlalchemy
from sqlalchemy import Float, Integer, String, Table, Text, select
from sqlalchemy.exc import DBAPIError

from ..errors import InputError
from ..findings import ACTIONS, STATUSES, shorten
from .database import count_on, is_text, lock_for_writing
from .models import Base
from .schema import HEAD
from .store import STAGES, STATES, Ledger
from .tickets import check_ticket

HEADER, FOOTER = "firstlight_ledger", "rows"
LINE_MAX = 1 << 20  # characters; a reading of a host is some ten thousand
BATCH = 500
_ID_MAX, _NUMBER_MAX = 2**31 - 1, 1e12
_TABLES = {table.name: table for table in Base.metadata.sorted_tables}
_TIMES = frozenset({"at", "started", "ended", "first_seen", "last_seen", "cleared", "opened", "updated", "closed"})
_WORDS = {
    "state": STATES,
    "before": STATES,
    "after": STATES,
    "stage": STAGES,
    "status": STATUSES,
    "action": ACTIONS,
    "result": ("passed", "failed", "undone"),
}


def export(ledger: Ledger) -> Iterator[str]:
    """The lines, as of one moment, without their ends. FirstlightError when the database cannot be used."""
    yield json.dumps({HEADER: HEAD})
    number = 0
    with ledger.snapshot() as connection:
        for name, table in _TABLES.items():
            rows = connection.execution_options(yield_per=BATCH).execute(select(table).order_by(table.c.id))
            for row in rows.mappings():
                yield json.dumps({name: dict(row)})
                number += 1
    yield json.dumps({FOOTER: number})


def load(ledger: Ledger, file: IO[str]) -> int:
    """Fill an empty ledger from what ``export`` wrote; returns the number of rows.

    All or nothing. InputError, with the number of the line, where something is not as ``export`` writes it.
    """
    try:
        with ledger._engine.begin() as connection:
            lock_for_writing(connection)
            for name, table in _TABLES.items():
                if connection.execute(select(table.c.id).limit(1)).first():
                    raise InputError(f"the ledger is not empty (table {name}); import into a new one")
            rows = _Rows(connection)
            _read(file, rows)
            return rows.number
    except DBAPIError as error:
        raise ledger.unusable(error) from None


def _read(file: IO[str], rows: _Rows) -> None:
    ended = False
    for number, line in enumerate(_lines(file), 1):
        try:
            if ended:
                raise ValueError("nothing may follow the last line, that of the number of rows")
            key, value = _pair(line)
            if number == 1:
                if key != HEADER:
                    raise ValueError(f"the first line is not {json.dumps({HEADER: HEAD})}; is this an export?")
                if value != HEAD:
                    raise ValueError(
                        f"an export of revision {_shown(value)}, this release reads {HEAD}; import it with the release "
                        "that wrote it"
                    )
            elif key == FOOTER:
                if value != rows.number or isinstance(value, bool):
                    raise ValueError(f"{_shown(value)} rows are announced, {rows.number} are there")
                ended = True
            else:
                rows.add(key, value)
        except (ValueError, RecursionError) as error:
            raise InputError(f"line {number}: {shorten(str(error), 300)}") from None
    if not ended:
        raise InputError("the file is not whole: its last line, the number of rows, is not there")
    rows.finish()


class _Rows:
    """Rows on their way into the database. ValueError says what is wrong with one."""

    def __init__(self, connection: sqlalchemy.Connection) -> None:
        self.number = 0
        self._connection = connection
        self._waiting: list[dict[str, Any]] = []
        self._table: Table | None = None
        self._last = dict.fromkeys(_TABLES, 0)
        self._known: dict[str, set[int]] = {"host": set(), "run": set(), "ticket": set()}
        self._there: set[tuple[str, Any]] = set()

    def add(self, name: str, row: Any) -> None:
        if name not in _TABLES:
            raise ValueError(f"there is no table {_shown(name)}")
        table = _TABLES[name]
        _check_row(table, row)
        if row["id"] <= self._last[name]:
            raise ValueError(f"{name}.id {row['id']} does not follow {self._last[name]}")
        self._last[name] = row["id"]
        for column, other in (("host_id", "host"), ("run_id", "run"), ("ticket_id", "ticket")):
            if row.get(column) is not None and row[column] not in self._known[other]:
                raise ValueError(f"{name}.{column} {row[column]} is no {other} of a line before")
        if name in self._known:
            self._known[name].add(row["id"])
        if name == "host":
            self._once("name", row["name"])
            self._once("service_tag", row["service_tag"])
        if name == "reading":
            self._once("reading", (row["host_id"], row["kind"]))
        if name == "ticket":
            check_ticket(row)
            self._once("ticket", row["name"])
        if name == "delivery":
            self._once("delivery", (row["ticket_id"], row["output"]))
        if table is not self._table or len(self._waiting) >= BATCH:
            self._write()
        self._table = table
        self._waiting.append(row)
        self.number += 1

    def finish(self) -> None:
        self._write()
        count_on(self._connection, _TABLES.values())

    def _once(self, what: str, value: Any) -> None:
        if value is None:
            return
        if (what, value) in self._there:
            raise ValueError(f"{what} {_shown(value)} is there twice")
        self._there.add((what, value))

    def _write(self) -> None:
        if self._waiting and self._table is not None:
            self._connection.execute(self._table.insert(), self._waiting)
        self._waiting = []


def _lines(file: IO[str]) -> Iterator[str]:
    number = 1
    try:
        while line := file.readline(LINE_MAX + 1):
            if len(line) > LINE_MAX:
                raise InputError(f"line {number}: longer than {LINE_MAX} characters")
            yield line
            number += 1
    except UnicodeDecodeError:
        raise InputError(f"line {number} or one soon after: not UTF-8") from None


def _pair(line: str) -> tuple[str, Any]:
    try:
        read = json.loads(line, object_pairs_hook=_mapping)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg}") from None
    if not isinstance(read, dict) or len(read) != 1:
        raise ValueError("not an object with one key")
    return next(iter(read.items()))


def _mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice")
    return found


def _check_row(table: Table, row: Any) -> None:
    if not isinstance(row, dict):
        raise ValueError(f"{table.name}: not an object")
    columns = {c.name: c for c in table.columns}
    if row.keys() != columns.keys():
        odd = min(row.keys() ^ columns.keys())
        raise ValueError(f"{table.name}: {'no' if odd in columns else 'unknown'} column {_shown(odd)}")
    for name, column in columns.items():
        value, where = row[name], f"{table.name}.{name}"
        if value is None:
            if not column.nullable:
                raise ValueError(f"{where} may not be null")
            continue
        _CHECKS[type(column.type)](column.type, name, value, where)


def _check_integer(_type: Any, name: str, value: Any, where: str) -> None:
    least = 1 if name == "id" or name.endswith("_id") else -_ID_MAX
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= _ID_MAX:
        raise ValueError(f"{where}: {_shown(value)} is no whole number from {least} to {_ID_MAX}")


def _check_float(_type: Any, _name: str, value: Any, where: str) -> None:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not abs(value) < _NUMBER_MAX:  # NaN is not
        raise ValueError(f"{where}: {_shown(value)} is no number")


def _check_text(type_: Any, name: str, value: Any, where: str) -> None:
    if not isinstance(value, str):
        raise ValueError(f"{where}: {_shown(value)} is no text")
    if type_.length and len(value) > type_.length:
        raise ValueError(f"{where}: longer than {type_.length} characters")
    if not is_text(value):
        raise ValueError(f"{where}: has characters that no database keeps")
    if name in _TIMES and not _is_time(value):
        raise ValueError(f"{where}: {_shown(value)} is no time in ISO 8601 with its zone")
    if name in _WORDS and value not in _WORDS[name]:
        raise ValueError(f"{where}: {_shown(value)} is none of {', '.join(_WORDS[name])}")


_CHECKS: dict[type, Callable[[Any, str, Any, str], None]] = {
    Integer: _check_integer,
    Float: _check_float,
    String: _check_text,
    Text: _check_text,
}


def _is_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _shown(value: Any) -> str:
    return shorten(repr(value), 60)
