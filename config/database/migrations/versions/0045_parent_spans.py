"""Add the caller's span to runs, below which a trace shows them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0045"
down_revision = "0044"


def upgrade() -> None:
    op.add_column("runs", sa.Column("parent_span", sa.String(16)))
