"""Add what an approval before a call is bound to: the tool's version, and the schema that edited arguments fit."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    op.add_column("approvals", sa.Column("tool_digest", sa.String(64)))
    op.add_column("approvals", sa.Column("schema_json", sa.Text()))
