"""Add the index that finds runs by their trace id."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    where = sa.text("trace_id IS NOT NULL")
    op.create_index("ix_runs_traced", "runs", ["tenant", "trace_id"], sqlite_where=where, postgresql_where=where)
