"""Add to runs for which agents their credential is, and which agents have handed them over."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"


def upgrade() -> None:
    op.add_column("runs", sa.Column("agents_json", sa.Text))
    op.add_column("runs", sa.Column("handed_from_json", sa.Text))
