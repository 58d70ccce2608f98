"""Keep the queue of each run, and the queues that each worker serves."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("runs", sa.Column("queue", sa.String(length=64)))
    op.add_column("workers", sa.Column("queues", sa.Text()))
