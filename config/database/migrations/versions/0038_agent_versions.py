"""Add the versions of agents with their aliases, and the behaviour that a sticky approval was given for."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0038"
down_revision = "0037"


def upgrade() -> None:
    op.create_table(
        "agent_versions",
        sa.Column("agent_id", sa.String(64), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("behaviour", sa.String(64), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("seen_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("agent_id", "number", name="pk_agent_versions"),
        sa.UniqueConstraint("agent_id", "digest", name="uq_agent_versions_agent_id_digest"),
    )
    op.create_table(
        "agent_aliases",
        sa.Column("agent_id", sa.String(64), nullable=False),
        sa.Column("alias", sa.String(16), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("share", sa.Integer(), nullable=False),
        sa.Column("previous", sa.Integer()),
        sa.Column("changed_by", sa.Text(), nullable=False),
        sa.Column("changed_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("agent_id", "alias", name="pk_agent_aliases"),
    )
    op.add_column("sticky_approvals", sa.Column("behaviour", sa.String(64)))
