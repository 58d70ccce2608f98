"""Add the index that finds open child runs among many runs that wait."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0040"
down_revision = "0039"


def upgrade() -> None:
    where = sa.text("parent_id IS NOT NULL")
    columns = ["ended_ms", "stop_requested"]
    op.create_index("ix_runs_open_children", "runs", columns, sqlite_where=where, postgresql_where=where)
