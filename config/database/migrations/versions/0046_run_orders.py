"""Add how long runs took, and the indexes that have a tenant's longest and dearest runs in front."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0046"
down_revision = "0045"


def upgrade() -> None:
    op.add_column("runs", sa.Column("duration_ms", sa.BigInteger))
    for name, column in (("ix_runs_longest", "duration_ms"), ("ix_runs_dearest", "cost_usd")):
        where = sa.text(f"{column} IS NOT NULL")
        op.create_index(name, "runs", ["tenant", column, "id"], sqlite_where=where, postgresql_where=where)
