"""Add the trace id of a run."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    op.add_column("runs", sa.Column("trace_id", sa.String(32)))
