"""Add which keys of models a worker lacks."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"


def upgrade() -> None:
    op.add_column("workers", sa.Column("missing_keys_json", sa.Text()))
