"""The ledger's revisions, one a file, each written after the one before and never changed again.

A change of models.py comes with a new revision here and its number in schema.py; a test compares the two. The first two
take tables that are there as they are: ledgers were in use before their revision was noted.

Alembic takes a quarter of a second to load: this package is imported only for a ledger that is older than the release.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

FOLDER = str(Path(__file__).parent)


def scripts() -> ScriptDirectory:
    return ScriptDirectory(FOLDER, version_locations=[FOLDER])


def upgrade(connection: Connection) -> None:
    """Bring the ledger from the revision that it notes to the last one, inside the transaction of this connection."""
    known = scripts()

    def steps(revision: Any, _context: Any) -> Any:
        return known._upgrade_revs("head", revision)

    with EnvironmentContext(Config(), known, fn=steps, destination_rev="head") as environment:
        environment.configure(connection=connection)
        environment.run_migrations()
