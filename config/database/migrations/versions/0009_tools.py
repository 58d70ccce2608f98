"""Add the table of the tools that workers have loaded."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.create_table(
        "tools",
        sa.Column("worker_id", sa.String(64), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("schema_json", sa.Text(), nullable=False),
        sa.Column("effect", sa.String(16), nullable=False),
        sa.Column("timeout_s", sa.Float(), nullable=False),
        sa.Column("agents_json", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("worker_id", "digest", name=op.f("pk_tools")),
    )
