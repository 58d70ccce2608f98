"""Add the priorities of runs, and the index that has a tenant's next queued run in front."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0041"
down_revision = "0040"


def upgrade() -> None:
    op.add_column("runs", sa.Column("priority", sa.SmallInteger, nullable=False, server_default="0"))
    where = sa.text("ended_ms IS NULL")
    columns = ["tenant", "queue", "status", "priority", "created_ms"]
    op.create_index("ix_runs_in_order", "runs", columns, sqlite_where=where, postgresql_where=where)
