"""Add the table of originals from which a guardrail removed something, encrypted."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    op.create_table(
        "sealed_originals",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("run_id", sa.String(64), nullable=False),
        sa.Column("what", sa.String(300), nullable=False),
        sa.Column("key_name", sa.String(16), nullable=False),
        sa.Column("sealed", sa.Text(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sealed_originals")),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_sealed_originals_run_id")),
    )
    op.create_index(op.f("ix_sealed_originals_run_id"), "sealed_originals", ["run_id"])
