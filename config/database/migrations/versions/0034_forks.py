"""Add to threads what they are forks of, and to runs what they continue from."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"


def upgrade() -> None:
    op.add_column("threads", sa.Column("forked_from", sa.String(128)))
    op.add_column("threads", sa.Column("forked_to", sa.Integer))
    op.add_column("runs", sa.Column("origin_id", sa.String(64)))
    op.add_column("runs", sa.Column("origin_json", sa.Text))
    where = sa.text("origin_id IS NOT NULL")
    op.create_index("ix_runs_origin", "runs", ["origin_id"], sqlite_where=where, postgresql_where=where)
