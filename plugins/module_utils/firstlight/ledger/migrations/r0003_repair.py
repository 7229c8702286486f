"""The repair loop: tickets and who was told of them, parts that were replaced, hosts that are held."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("host", sa.Column("held", sa.Text))
    op.create_table(
        "ticket",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("host_id", sa.Integer, sa.ForeignKey("host.id"), nullable=False),
        sa.Column("name", sa.String(128), nullable=False, unique=True),
        sa.Column("opened", sa.String(32), nullable=False),
        sa.Column("updated", sa.String(32), nullable=False),
        sa.Column("closed", sa.String(32)),
        sa.Column("value", sa.Text, nullable=False),
    )
    op.create_table(
        "delivery",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("ticket_id", sa.Integer, sa.ForeignKey("ticket.id"), nullable=False),
        sa.Column("output", sa.String(64), nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("at", sa.String(32), nullable=False),
        sa.Column("reference", sa.String(200), nullable=False),
        sa.UniqueConstraint("ticket_id", "output"),
    )
    op.create_table(
        "part",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("host_id", sa.Integer, sa.ForeignKey("host.id"), nullable=False),
        sa.Column("run_id", sa.Integer, sa.ForeignKey("run.id")),
        sa.Column("at", sa.String(32), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("locator", sa.String(120), nullable=False),
        sa.Column("removed", sa.String(120), nullable=False),
        sa.Column("installed", sa.String(120), nullable=False),
    )
