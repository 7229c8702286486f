"""Tickets as the ledger keeps them, and what each output was told of them."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, func, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from ..errors import FirstlightError, InputError
from ..findings import shorten
from ..tickets.model import OPEN, Ticket
from ..tickets.plan import Plan
from .database import is_text
from .models import Delivery, Host, TicketRow
from .store import Ledger, now

VALUE_MAX = 256 * 1024  # characters of one ticket; beyond that its oldest updates go
WAIT_SECONDS = 60.0
_DELIVERING = 0x66697273746C7469  # which lock of a PostgreSQL database is that of who delivers


def tickets(ledger: Ledger, names: Iterable[str] | None = None, open_only: bool = False) -> list[Ticket]:
    """Tickets in the order in which they were opened; names: only those of the machines that have these names now.

    FirstlightError where the database cannot be used, or one of them was damaged.
    """
    with ledger._reading() as session:
        return _read(session, names, open_only)


def ticket(ledger: Ledger, name: str) -> Ticket:
    """The ticket with this id; InputError: there is none."""
    with ledger._reading() as session:
        row = session.scalars(select(TicketRow).filter_by(name=name)).first() if is_text(name) else None
        if row is None:
            raise InputError(f"the ledger has no ticket {shorten(name, 128)}")
        return from_row(row)


def nameless(ledger: Ledger) -> set[str]:
    """Ids of open tickets of machines whose name went to another machine."""
    query = select(TicketRow.name).join(Host, Host.id == TicketRow.host_id)
    with ledger._reading() as session:
        return set(session.scalars(query.where(Host.name.is_(None), TicketRow.closed.is_(None))))


def save(ledger: Ledger, made: Plan) -> None:
    """Write a plan down, whole or not at all. FirstlightError: a host of it is none that the ledger knows."""
    with ledger._transaction() as session:
        _write(session, made)


def change(ledger: Ledger, decide: Callable[[list[Ticket]], Plan]) -> Plan:
    """Decide from all tickets that there are, and save what was decided, while nobody else writes to the ledger."""
    with ledger._transaction() as session:
        made = decide(_read(session))
        _write(session, made)
        return made


# -- what outputs were told -------------------------------------------------------------------------------------------


def delivered(ledger: Ledger, output: str) -> dict[str, tuple[int, str]]:
    """{ticket: (the version that this output was told last, the receiver's reference)}."""
    query = select(TicketRow.name, Delivery.version, Delivery.reference).join_from(Delivery, TicketRow)
    with ledger._reading() as session:
        rows = session.execute(query.where(Delivery.output == output))
        return {name: (version, reference) for name, version, reference in rows}


def note_delivery(ledger: Ledger, output: str, told: Ticket, reference: str) -> None:
    """This output has this version now. FirstlightError: the ledger has no such ticket."""
    with ledger._transaction() as session:
        row = session.scalars(select(TicketRow).filter_by(name=told.id)).first()
        if row is None:
            raise FirstlightError(f"the ledger has no ticket {told.id}")
        note = session.scalars(select(Delivery).filter_by(ticket_id=row.id, output=output)).first()
        note = note or Delivery(ticket_id=row.id, output=output)
        note.version, note.reference, note.at = told.version, reference[:200], now()
        session.add(note)


@contextlib.contextmanager
def delivering(ledger: Ledger, seconds: float = WAIT_SECONDS) -> Iterator[None]:
    """One process at a time tells outputs of tickets; others wait. FirstlightError after so many seconds.

    The lock is given back however the process ends.
    """
    until = time.monotonic() + seconds
    database = ledger._engine.url.database
    with contextlib.ExitStack() as held:
        if ledger._engine.dialect.name == "postgresql":
            connection = held.enter_context(_own_connection(ledger))

            def taken() -> bool:
                return bool(connection.execute(select(func.pg_try_advisory_lock(_DELIVERING))).scalar())

        elif database and database != ":memory:":
            file = held.enter_context(_lock_file(Path(database)))

            def taken() -> bool:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    return False
                return True

        else:
            yield
            return
        while not taken():
            if time.monotonic() > until:
                raise FirstlightError("another process is telling of tickets; what waits is told by the next run")
            time.sleep(0.2)
        yield


@contextlib.contextmanager
def _own_connection(ledger: Ledger) -> Iterator[Connection]:
    """One without a transaction, which the server might end while an output takes its time."""
    try:
        with ledger._engine.connect() as connection:
            yield connection.execution_options(isolation_level="AUTOCOMMIT")
    except DBAPIError as error:
        raise ledger.unusable(error) from None


@contextlib.contextmanager
def _lock_file(database: Path) -> Iterator[int]:
    path = database.with_name(f"{database.name}.tickets.lock")
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)  # less the umask, as the ledger
    except OSError as error:
        raise FirstlightError(f"{path} cannot be opened: {error.strerror}") from None
    try:
        yield file
    finally:
        os.close(file)


# -- inside a transaction ---------------------------------------------------------------------------------------------


def _read(session: Session, names: Iterable[str] | None = None, open_only: bool = False) -> list[Ticket]:
    query = select(TicketRow).order_by(TicketRow.id)
    if open_only:
        query = query.where(TicketRow.closed.is_(None))
    if names is not None:
        wanted = set(names)
        hosts = session.execute(select(Host.id, Host.name).where(Host.name.is_not(None)))
        ids = {host for host, name in hosts if name in wanted}
        return [from_row(row) for row in session.scalars(query) if row.host_id in ids]
    return [from_row(row) for row in session.scalars(query)]


def _write(session: Session, made: Plan) -> None:
    for one in made.all():
        host = session.scalars(select(Host).filter_by(service_tag=one.service_tag)).first() if one.service_tag else None
        host = host or session.scalars(select(Host).filter_by(name=one.host)).first()
        if host is None:
            raise FirstlightError(f"ticket {one.id} is of host {one.host}, which the ledger does not know")
        row = session.scalars(select(TicketRow).filter_by(name=one.id)).first()
        row = row or TicketRow(name=one.id, opened=one.opened)
        row.host_id, row.updated, row.value = host.id, one.updated, _text(one)
        row.closed = None if one.state == OPEN else one.updated
        session.add(row)
        session.flush()


def _text(one: Ticket) -> str:
    text = json.dumps(one.to_dict())
    while len(text) > VALUE_MAX and one.history:
        one = replace(one, history=one.history[len(one.history) // 2 + 1 :])
        text = json.dumps(one.to_dict())
    return text


def from_row(row: TicketRow) -> Ticket:
    """FirstlightError where it was damaged."""
    try:
        return _parsed(row.name, row.value)
    except ValueError as error:
        raise FirstlightError(f"the ledger's ticket {row.name} is damaged: {error}") from None


def _parsed(name: str, value: str) -> Ticket:
    """ValueError where it is no ticket of this id."""
    try:
        read = Ticket.from_dict(json.loads(value))
    except (KeyError, TypeError, AttributeError, RecursionError, ValueError) as error:
        raise ValueError(f"{type(error).__name__} {shorten(str(error), 100)}") from None
    if read.id != name:
        raise ValueError(f"it says that it is {shorten(repr(read.id), 60)}")
    return read


def check_ticket(row: Mapping[str, Any]) -> None:
    """ValueError where a row of the table, whose columns are right, says one thing and its value another."""
    read = _parsed(row["name"], row["value"])
    if (read.state == OPEN) != (row["closed"] is None):
        raise ValueError(f"ticket {shorten(row['name'], 60)} is {read.state}, and closed is {row['closed']!r}")
