"""Add the index that finds the runs of a tenant that failed lately."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"


def upgrade() -> None:
    where = sa.text("error_code IS NOT NULL")
    op.create_index("ix_runs_failed", "runs", ["tenant", "ended_ms"], sqlite_where=where, postgresql_where=where)
