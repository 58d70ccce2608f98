"""Add what a tool says of itself besides its schema, and the calls that each worker gave up."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    op.add_column("tools", sa.Column("metadata_json", sa.Text()))
    op.add_column("workers", sa.Column("abandoned_json", sa.Text()))
