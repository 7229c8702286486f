"""A plugin of pytest, for its option -p, by which the unit tests of the ledger run on PostgreSQL.

Tests that look into an SQLite file are left out. $FIRSTLIGHT_TEST_SERVER: the URL of a database beside which others may
be made.
"""

from __future__ import annotations

import hashlib
import inspect
import os
from pathlib import Path

import pytest
import sqlalchemy
from sqlalchemy.pool import NullPool

OF_A_FILE = {
    "test_a_folder_that_cannot_be_made_is_one_line",
    "test_a_ledger_that_cannot_be_read_is_one_line",
    "test_the_command_line_reads_the_site_and_tells_people_and_programs",
}
SERVER = "FIRSTLIGHT_TEST_SERVER"


def pytest_collection_modifyitems(config, items):
    of_a_file = [i for i in items if "sqlite3" in inspect.getsource(i.function) or i.originalname in OF_A_FILE]
    config.hook.pytest_deselected(items=of_a_file)
    items[:] = [item for item in items if item not in of_a_file]


@pytest.fixture(autouse=True)
def ledgers_on_the_server(request, monkeypatch):
    """In place of each file a database."""
    server = sqlalchemy.make_url(os.environ[SERVER])
    engine = sqlalchemy.create_engine(server, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    made = []

    def url(text: str, base: Path | None = None) -> str:
        if not text.endswith(".sqlite"):  # what is wrong on purpose
            return text
        name = "t" + hashlib.sha256(f"{request.node.nodeid} {base} {text}".encode()).hexdigest()[:30]
        if name not in made:
            with engine.connect() as connection:
                connection.exec_driver_sql(f"CREATE DATABASE {name}")
            made.append(name)
        return server.set(database=name).render_as_string(hide_password=False)

    monkeypatch.setattr(request.module, "ledger_url", url)
    yield
    with engine.connect() as connection:
        for name in made:
            connection.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")
