"""One run at a time works on a host: claims that are given back when a process ends, however it ends.

What is claimed has a name; turns, of which there are only so many at once on a ledger, are claimed like hosts.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import pwd
import socket
import struct
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import sqlalchemy

from ..errors import FirstlightError, InputError
from ..findings import shorten
from .database import connect_args, parsed, reason, shown
from .store import ledger_file, operator

SHOWN = 5
_FLOCK = "hhqqi4x"  # struct flock of 64-bit Linux: l_type, l_whence, l_start, l_len, l_pid

_TAKE = "SELECT key, pg_try_advisory_lock(key) FROM unnest(%s::bigint[]) AS key"
_HOLDERS = """
    SELECT DISTINCT application_name FROM pg_locks JOIN pg_stat_activity USING (pid)
    WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND datname = current_database()
    AND database = datid AND ((classid::bigint << 32) | objid::bigint) = ANY(%s::bigint[])
"""
_HELD = """
    SELECT key FROM unnest(%s::bigint[]) AS key WHERE EXISTS (
        SELECT FROM pg_locks JOIN pg_database ON pg_database.oid = database
        WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND datname = current_database()
        AND ((classid::bigint << 32) | objid::bigint) = key
    )
"""
# What the server asks of a connection that says nothing: it may, and it ends when its machine is gone.
_SET = "SELECT set_config(name, %s, false) FROM pg_settings WHERE name = %s"  # not every server knows each
_SETTINGS = {
    "idle_session_timeout": "0",
    "tcp_keepalives_idle": "60",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
}


def claims_of(url: str) -> Claims | ServerClaims | None:
    """How runs on this ledger claim hosts; None for one in memory, and where opening it will say what is wrong."""
    file = ledger_file(url)
    if file is not None:
        return Claims(file)
    with contextlib.suppress(InputError):
        return ServerClaims(url) if parsed(url).get_backend_name() == "postgresql" else None
    return None


class Claims:
    """Claims on hosts, in a file beside an SQLite ledger: one locked byte a host, at a place that its name gives.

    POSIX locks belong to a process: workers that it forks do not keep them when it is killed.
    """

    def __init__(self, ledger: Path) -> None:
        self._path = ledger.with_name(f"{ledger.name}.lock")
        self._file: int | None = None

    def take(self, names: Iterable[str]) -> None:
        """Claim all of these hosts or none; FirstlightError says who has which."""
        file = self._open()
        busy: dict[str, str] = {}
        for name in names:
            if not _lock(file, name):
                busy[name] = _who(_holder(file, _place(name)))
        if busy:
            os.close(file)  # gives back what was taken
            raise _refusal(busy, ", ".join(sorted({who for who in busy.values() if who})))
        self._file = file

    def take_first(self, names: Iterable[str]) -> str:
        """Claim the first of these that is free; "" where none is."""
        file = self._open()
        for name in names:
            if _lock(file, name):
                self._file = file
                return name
        os.close(file)
        return ""

    def held(self, names: Iterable[str]) -> set[str]:
        """Which of these other processes have. Not for one that has claims itself: it would lose them by looking."""
        with contextlib.closing(os.fdopen(self._open())) as file:
            return {name for name in names if _holder(file.fileno(), _place(name))}

    def give_back(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _open(self) -> int:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)  # less the umask, as the ledger
        except OSError as error:
            raise FirstlightError(f"{self._path} cannot be opened: {error.strerror}") from None


class ServerClaims:
    """Claims on hosts, in the database of a PostgreSQL ledger: locks of a connection that this process alone has.

    The server gives them back when the connection ends. Where the controller's machine went away without a word it
    takes note of that after 90 seconds.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: Any = None

    def take(self, names: Iterable[str]) -> None:
        """Claim all of these hosts or none; FirstlightError says who has which."""
        by_key = {_place(name): name for name in names}
        with self._connected() as connection:
            busy, holders = _take(connection, list(by_key))
            if not busy:
                self._connection = connection
        if busy:
            raise _refusal([by_key[key] for key in busy], holders)
        os.register_at_fork(after_in_child=self._leave)

    def take_first(self, names: Iterable[str]) -> str:
        """Claim the first of these that is free; "" where none is."""
        with self._connected() as connection, connection.cursor() as cursor:
            for name in names:
                if _take_all(cursor, [_place(name)]):
                    continue
                self._connection = connection
                return name
        return ""

    def held(self, names: Iterable[str]) -> set[str]:
        """Which of these other processes have."""
        by_key = {_place(name): name for name in names}
        with self._connected() as connection, connection.cursor() as cursor:
            cursor.execute(_HELD, (list(by_key),))
            return {by_key[key] for (key,) in cursor.fetchall()}

    def give_back(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @contextlib.contextmanager
    def _connected(self) -> Iterator[Any]:
        """A connection of its own, closed at the end unless something is claimed by it."""
        who = f"process {os.getpid()} of {operator()} on {socket.gethostname()}"[:63]
        url = parsed(self._url)
        connection: Any = None
        try:
            engine = sqlalchemy.create_engine(url)  # for its driver; its pool would end the connection in workers too
            words, options = engine.dialect.create_connect_args(url)
            options = {**options, **connect_args(self._url), "application_name": who}
            connection = engine.dialect.loaded_dbapi.connect(*words, **options)
            connection.autocommit = True
            with connection.cursor() as cursor:
                for setting, value in _SETTINGS.items():
                    cursor.execute(_SET, (value, setting))
            yield connection
        except Exception as error:  # each driver has its own
            raise FirstlightError(
                f"ledger {shown(self._url)}: hosts cannot be claimed: {reason(error, self._url)}; see docs/ledger.md"
            ) from None
        finally:
            if connection is not None and connection is not self._connection:
                connection.close()  # gives back what was taken

    def _leave(self) -> None:
        """In a worker: it has a copy of the connection, which would outlive the run, and must not say a word on it."""
        if self._connection is None:
            return
        with contextlib.suppress(OSError):
            null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
            os.dup2(null, self._connection.fileno(), inheritable=False)
            os.close(null)


def _lock(file: int, name: str) -> bool:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _place(name))
    except OSError:
        return False
    return True


def _take(connection: Any, keys: list[int]) -> tuple[list[int], str]:
    """Which of these others hold, and who they are; the rest is held from now on."""
    with connection.cursor() as cursor:
        busy = _take_all(cursor, keys)
        if not busy:
            return [], ""
        cursor.execute(_HOLDERS, (busy,))
        return busy, ", ".join(shorten(name, 63) for (name,) in cursor.fetchall() if name)


def _take_all(cursor: Any, keys: list[int]) -> list[int]:
    """Which of these others hold; the rest is held from now on."""
    cursor.execute(_TAKE, (keys,))
    return [key for key, taken in cursor.fetchall() if not taken]


def _refusal(busy: Collection[str], holders: str) -> FirstlightError:
    shown_names = ", ".join(list(busy)[:SHOWN]) + (f" and {len(busy) - SHOWN} more" if len(busy) > SHOWN else "")
    who = f" ({holders})" if holders else ""
    return FirstlightError(f"another run{who} works on {shown_names}; wait for its end, or leave them out with -l")


def _place(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:7])


def _who(process: int) -> str:
    """A process of this machine, and whose it is; "" for none. The kernel tells of no other machine's."""
    if not process:
        return ""
    here = socket.gethostname()
    try:
        owner = Path(f"/proc/{process}").stat().st_uid
    except OSError:  # it ended meanwhile
        return f"process {process} on {here}"
    try:
        return f"process {process} of {pwd.getpwuid(owner).pw_name} on {here}"
    except KeyError:
        return f"process {process} of user {owner} on {here}"


def _holder(file: int, place: int) -> int:
    """The process that holds a byte, 0 when that cannot be told."""
    with contextlib.suppress(OSError, struct.error):
        asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, place, 1, 0)
        return int(struct.unpack(_FLOCK, fcntl.fcntl(file, fcntl.F_GETLK, asked))[4])
    return 0
