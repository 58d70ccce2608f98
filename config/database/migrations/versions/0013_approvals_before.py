"""Add what an approval before a call is bound to, and an index of the open questions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    op.add_column("approvals", sa.Column("tool_digest", sa.String(64)))
    op.add_column("approvals", sa.Column("schema_json", sa.Text()))
    op.add_column("approvals", sa.Column("on_expiry", sa.String(16)))
    op.add_column("approvals", sa.Column("default_json", sa.Text()))
    op.add_column("approvals", sa.Column("approvers", sa.Integer()))
    op.add_column("approvals", sa.Column("approved_json", sa.Text()))
    where = sa.text("decision IS NULL")
    op.create_index("ix_approvals_open", "approvals", ["created_ms", "id"], sqlite_where=where, postgresql_where=where)
