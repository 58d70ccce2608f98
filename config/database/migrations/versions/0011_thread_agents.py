"""Add the table of the agents that joined a thread after its first one; those of the runs that are there."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.create_table(
        "thread_agents",
        sa.Column("thread_key", sa.BigInteger().with_variant(sa.Integer, "sqlite"), nullable=False),
        sa.Column("agent_id", sa.String(64), nullable=False),
        sa.ForeignKeyConstraint(["thread_key"], ["threads.key"], name=op.f("fk_thread_agents_thread_key")),
        sa.PrimaryKeyConstraint("thread_key", "agent_id", name=op.f("pk_thread_agents")),
    )
    op.execute(
        "INSERT INTO thread_agents (thread_key, agent_id) SELECT DISTINCT runs.thread_key, runs.agent_id "
        "FROM runs JOIN threads ON threads.key = runs.thread_key WHERE runs.agent_id != threads.agent_id"
    )
