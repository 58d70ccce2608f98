"""Add an index of questions by their time, for how many a principal's runs asked lately."""

from __future__ import annotations

from alembic import op

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    op.create_index(op.f("ix_approvals_created_ms"), "approvals", ["created_ms"])
