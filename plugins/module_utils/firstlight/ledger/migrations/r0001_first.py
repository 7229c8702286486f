"""The tables of the first release."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "host",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("service_tag", sa.String(64), unique=True),
        sa.Column("name", sa.String(64), unique=True),
        sa.Column("site", sa.String(64), nullable=False),
        sa.Column("rack", sa.String(64), nullable=False),
        sa.Column("unit", sa.Integer),
        sa.Column("profile", sa.String(64), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "run",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("playbook", sa.String(200), nullable=False),
        sa.Column("operator", sa.String(64), nullable=False),
        sa.Column("started", sa.String(32), nullable=False),
        sa.Column("ended", sa.String(32)),
        sa.Column("outcome", sa.String(16)),
        sa.Column("message", sa.Text, nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "stage_run",
        *_of_a_host(),
        sa.Column("stage", sa.String(16), nullable=False),
        sa.Column("started", sa.String(32), nullable=False),
        sa.Column("ended", sa.String(32)),
        sa.Column("seconds", sa.Float),
        sa.Column("result", sa.String(16)),
        if_not_exists=True,
    )
    op.create_index("stage_run_host", "stage_run", ["host_id", "stage"], if_not_exists=True)
    op.create_table(
        "finding",
        *_of_a_host(),
        sa.Column("stage", sa.String(16), nullable=False),
        sa.Column("check", sa.String(64), nullable=False),
        sa.Column("status", sa.String(8), nullable=False),
        sa.Column("symptom", sa.String(64), nullable=False),
        sa.Column("locator", sa.String(120), nullable=False),
        sa.Column("evidence", sa.Text, nullable=False),
        sa.Column("action", sa.String(16), nullable=False),
        sa.Column("first_seen", sa.String(32), nullable=False),
        sa.Column("last_seen", sa.String(32), nullable=False),
        sa.Column("cleared", sa.String(32)),
        if_not_exists=True,
    )
    op.create_index("finding_host", "finding", ["host_id", "stage"], if_not_exists=True)
    op.create_table(
        "state_change",
        *_of_a_host(),
        sa.Column("at", sa.String(32), nullable=False),
        sa.Column("before", sa.String(16), nullable=False),
        sa.Column("after", sa.String(16), nullable=False),
        sa.Column("who", sa.String(64), nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "deed",
        *_of_a_host(),
        sa.Column("at", sa.String(32), nullable=False),
        sa.Column("what", sa.Text, nullable=False),
        if_not_exists=True,
    )


def _of_a_host() -> list[sa.Column[int]]:
    return [
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("host_id", sa.Integer, sa.ForeignKey("host.id"), nullable=False),
        sa.Column("run_id", sa.Integer, sa.ForeignKey("run.id")),
    ]
