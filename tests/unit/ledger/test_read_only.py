"""A ledger where nothing can be written: it is read all the same, or a line says why not."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from firstlight.errors import FirstlightError
from firstlight.ledger.store import Ledger, ledger_url
from firstlight.sitefiles import PlannedHost


@pytest.fixture
def file() -> Iterator[Path]:
    """In a folder that everybody may read; pytest's own are not."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.sqlite"
        Ledger(ledger_url(str(path))).plan("s", [PlannedHost("n1", "r1", 1, "10.0.0.1", "p")])
        path.chmod(0o444)
        path.parent.chmod(0o555)
        yield path
        path.parent.chmod(0o755)


def told(file: Path) -> str:
    """What a process learns that may write nothing there: root may everywhere."""
    read, write = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            if os.geteuid() == 0:
                os.setuid(65534)
            said = str(Ledger(ledger_url(str(file)), create=False).states())
        except FirstlightError as error:
            said = str(error)
        except BaseException as error:
            said = repr(error)
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    with open(read) as pipe:  # noqa: PTH123
        said = pipe.read()
    os.waitpid(process, 0)
    return said


def test_it_is_read(file: Path) -> None:
    assert told(file) == "{'n1': 'planned'}"
    assert [path.name for path in file.parent.iterdir()] == ["ledger.sqlite"]


def test_what_a_killed_run_left_beside_it_is_not_passed_over(file: Path) -> None:
    file.parent.chmod(0o755)
    file.chmod(0o644)
    db = sqlite3.connect(file)
    db.execute("UPDATE host SET state = 'ready'")
    db.commit()
    left = {path: path.read_bytes() for path in file.parent.iterdir() if not path.name.endswith("-shm")}
    db.close()
    for path, content in left.items():
        path.write_bytes(content)
        path.chmod(0o444)
    file.parent.chmod(0o555)
    assert "its last changes are in ledger.sqlite-wal; copy both into one folder" in told(file)
