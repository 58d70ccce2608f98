"""Add the summaries of threads that have grown long."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0039"
down_revision = "0038"


def upgrade() -> None:
    op.create_table(
        "summaries",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("thread_key", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("agent_id", sa.String(64), nullable=False),
        sa.Column("from_number", sa.Integer(), nullable=False),
        sa.Column("upto_turn", sa.Integer(), nullable=False),
        sa.Column("upto_number", sa.Integer(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("facts_json", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("decision_json", sa.Text()),
        sa.Column("usage_json", sa.Text()),
        sa.Column("cost_usd", sa.Float()),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("used_by", sa.String(64)),
        sa.Column("dropped_ms", sa.BigInteger()),
        sa.Column("dropped_by", sa.String(64)),
        sa.ForeignKeyConstraint(
            ["thread_key"], ["threads.key"], name=op.f("fk_summaries_thread_key"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_summaries")),
    )
    op.create_index(
        op.f("ix_summaries_thread_key_agent_id_upto_turn_upto_number"),
        "summaries",
        ["thread_key", "agent_id", "upto_turn", "upto_number"],
    )
