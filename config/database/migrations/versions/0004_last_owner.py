"""Add a column for the fence of each run's last owner, which was searched for in the text of its events."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.add_column("runs", sa.Column("owned_fence", sa.Integer(), nullable=False, server_default="0"))
    # Only for runs with events to deliver to observers: every owner begins with ``status running``.
    op.execute(
        "UPDATE runs SET owned_fence = COALESCE((SELECT MAX(events.fence) FROM events WHERE events.run_id = runs.id"
        " AND events.type = 'status' AND events.data_json LIKE '%\"status\":\"running\"%'), 0)"
        " WHERE ended_ms IS NULL OR NOT observers_told"
    )
