"""Add to runs how long workers worked on them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"


def upgrade() -> None:
    op.add_column("runs", sa.Column("work_ms", sa.BigInteger))
