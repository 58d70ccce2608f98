"""Add what a run's door declared of it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"


def upgrade() -> None:
    op.add_column("runs", sa.Column("context_json", sa.Text()))
