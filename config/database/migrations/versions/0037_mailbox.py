"""Add what controls are answered with, undone messages, and what a thread does while its run waits for a person."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0037"
down_revision = "0036"


def upgrade() -> None:
    op.add_column("controls", sa.Column("number", sa.Integer))
    op.add_column("controls", sa.Column("state", sa.String(16)))
    op.add_column("controls", sa.Column("consumed_at", sa.Integer))
    # Of ended runs nothing is unread any more.
    op.execute("UPDATE controls SET taken_ms = created_ms WHERE run_id IN (SELECT id FROM runs WHERE ended_ms > 0)")
    op.create_index(
        "ix_controls_unread",
        "controls",
        ["run_id", "id"],
        sqlite_where=sa.text("taken_ms IS NULL"),
        postgresql_where=sa.text("taken_ms IS NULL"),
    )
    op.add_column("messages", sa.Column("undone", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("runs", sa.Column("on_waiting", sa.String(8)))
