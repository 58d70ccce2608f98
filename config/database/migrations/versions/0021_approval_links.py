"""Add signed links to a question for one person."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    op.create_table(
        "approval_links",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("run_id", sa.String(64), nullable=False),
        sa.Column("approval_id", sa.String(64), nullable=False),
        sa.Column("principal", sa.String(64), nullable=False),
        sa.Column("digest", sa.String(64)),
        sa.Column("tool_digest", sa.String(64)),
        sa.Column("created_by", sa.String(64), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("expires_ms", sa.BigInteger(), nullable=False),
        sa.Column("used_ms", sa.BigInteger()),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_approval_links")),
    )
    op.create_index(op.f("ix_approval_links_expires_ms"), "approval_links", ["expires_ms"])
