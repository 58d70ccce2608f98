"""Add the columns and tables by which a run survives its workers: waits, releases, crashes, stored definitions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    with op.batch_alter_table("runs") as runs:
        runs.add_column(sa.Column("detail", sa.Text()))
        runs.add_column(sa.Column("journal", sa.Integer(), nullable=False, server_default="1"))
        runs.add_column(sa.Column("commits", sa.Integer(), nullable=False, server_default="0"))
        runs.add_column(sa.Column("declared_to", sa.Integer(), nullable=False, server_default="0"))
        runs.add_column(sa.Column("crashes_json", sa.Text()))
    with op.batch_alter_table("approvals") as approvals:
        approvals.add_column(sa.Column("kind", sa.String(length=16), nullable=False, server_default="unknown"))
    with op.batch_alter_table("workers") as workers:
        workers.add_column(sa.Column("queue", sa.String(length=64)))
        workers.add_column(sa.Column("version", sa.String(length=32)))
        workers.add_column(sa.Column("clock_ms", sa.BigInteger()))
    op.create_table(
        "definitions",
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("agent_id", sa.String(length=64), nullable=False),
        sa.Column("content_json", sa.Text(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_definitions")),
    )
    op.create_table(
        "secrets",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_secrets")),
    )
    untold = sa.text("NOT observers_told")
    op.create_index("ix_runs_untold", "runs", ["observers_told"], sqlite_where=untold, postgresql_where=untold)
    op.create_index(op.f("ix_runs_ended_ms"), "runs", ["ended_ms"])
    going = sa.text("ended_ms IS NULL")
    op.create_index(
        "ix_runs_open_of_thread", "runs", ["thread_key", "turn"], sqlite_where=going, postgresql_where=going
    )
    op.create_index(op.f("ix_messages_thread_key_turn_number"), "messages", ["thread_key", "turn", "number"])
