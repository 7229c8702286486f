"""The shards of one fleet run know each other; what the fleet file calls a machine that says something else."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.add_column("run", sa.Column("fleet_run", sa.String(64)))
    op.create_index("run_fleet_run", "run", ["fleet_run"])
    op.add_column("host", sa.Column("planned_tag", sa.String(64)))
