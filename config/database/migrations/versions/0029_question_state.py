"""Add what a tool keeps with a question that it asks."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"


def upgrade() -> None:
    op.add_column("approvals", sa.Column("state", sa.Text))
