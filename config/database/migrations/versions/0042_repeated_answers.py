"""Add columns for what became of a message that joined another run, so that a repeated request gets the same answer."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0042"
down_revision = "0041"


def upgrade() -> None:
    op.add_column("idempotency_keys", sa.Column("delivered", sa.String(8)))
    op.add_column("idempotency_keys", sa.Column("control_id", sa.String(64)))
