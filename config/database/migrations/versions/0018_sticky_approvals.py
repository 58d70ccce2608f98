"""Add sticky approvals, and what a question offers of them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    op.add_column("approvals", sa.Column("scopes_json", sa.Text()))
    op.add_column("approvals", sa.Column("scope_s", sa.Integer()))
    op.create_table(
        "sticky_approvals",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("principal", sa.String(64), nullable=False),
        sa.Column("agent_id", sa.String(64), nullable=False),
        sa.Column("thread_id", sa.String(128), nullable=False),
        sa.Column("private", sa.Boolean(), nullable=False),
        sa.Column("scope", sa.String(8), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("tool_digest", sa.String(64), nullable=False),
        sa.Column("policy_version", sa.String(64)),
        sa.Column("approval_id", sa.String(64), nullable=False),
        sa.Column("approved_by", sa.String(64), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("expires_ms", sa.BigInteger(), nullable=False),
        sa.Column("revoked_ms", sa.BigInteger()),
        sa.Column("revoked_by", sa.String(64)),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sticky_approvals")),
    )
    op.create_index(
        op.f("ix_sticky_approvals_tenant_principal_agent_id"), "sticky_approvals", ["tenant", "principal", "agent_id"]
    )
