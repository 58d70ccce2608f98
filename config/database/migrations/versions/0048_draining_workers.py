"""Add to a worker's row that it drains."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0048"
down_revision = "0047"


def upgrade() -> None:
    op.add_column("workers", sa.Column("draining", sa.Boolean, nullable=False, server_default=sa.false()))
