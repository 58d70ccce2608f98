"""Add the index that counts a tenant's and a principal's open and queued runs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    is_open = sa.text("ended_ms IS NULL")
    op.create_index(
        "ix_runs_open_of_tenant",
        "runs",
        ["tenant", "principal", "status"],
        sqlite_where=is_open,
        postgresql_where=is_open,
    )
