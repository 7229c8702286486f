"""A PostgreSQL server for tests: in a temporary folder, reached by a socket in there, as a user that is not root."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy
from sqlalchemy.pool import NullPool

PATIENCE = 60  # seconds for anything that takes one on an idle machine


class Server:
    """``url(name)`` is the URL of a database of this name, which is made when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: set[str] = set()

    def url(self, name: str) -> str:
        if name not in self._made:
            self._made.add(name)
            self.execute(f'CREATE DATABASE "{name}"')
        return self._url(name)

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[object, ...]]:
        engine = sqlalchemy.create_engine(self._url(database), poolclass=NullPool, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            result = connection.exec_driver_sql(statement)
            return [tuple(row) for row in result] if result.returns_rows else []

    def _url(self, database: str) -> str:
        return f"postgresql+psycopg://firstlight@/{database}?host={self._folder}"


@contextlib.contextmanager
def running() -> Iterator[Server]:
    """A server of its own; when left it is ended, and its folder removed."""
    folder = Path(tempfile.mkdtemp(prefix="firstlight-pg-"))
    owner: dict[str, int | list[int]] = {}
    if os.geteuid() == 0:  # whom PostgreSQL refuses
        user = pwd.getpwnam("postgres")
        owner = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        os.chown(folder, user.pw_uid, user.pw_gid)
    log = (folder / "log").open("w")
    process = None
    try:
        making = [_program("initdb"), "-D", f"{folder}/data", "-U", "firstlight", "-A", "trust", "-E", "UTF8"]
        making += ["--locale=C", "--no-sync", "--no-instructions"]
        subprocess.run(making, check=True, stdout=log, stderr=log, cwd=folder, timeout=PATIENCE, **owner)
        words = [_program("postgres"), "-D", f"{folder}/data", "-k", str(folder)]
        for setting in ("listen_addresses=", "fsync=off", "max_connections=30", "shared_buffers=16MB"):
            words += ["-c", setting]
        process = subprocess.Popen(words, stdout=log, stderr=log, cwd=folder, **owner)
        server = Server(folder)
        _wait(process, server, folder)
        yield server
    finally:
        if process is not None:
            process.send_signal(signal.SIGQUIT)  # at once, whoever is connected
            process.wait(PATIENCE)
        log.close()
        shutil.rmtree(folder)


def _wait(process: subprocess.Popen[bytes], server: Server, folder: Path) -> None:
    until = time.monotonic() + PATIENCE
    while True:
        try:
            server.execute("SELECT 1")
            return
        except sqlalchemy.exc.OperationalError as error:
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < until, error
            time.sleep(0.1)


def _program(name: str) -> str:
    """Debian keeps them out of the PATH, by version."""
    there = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda p: float(p.parts[-3]))
    found = str(there[-1]) if there else shutil.which(name)
    assert found, f"there is no {name}; scripts/system-packages --postgresql installs Debian's"
    return found
