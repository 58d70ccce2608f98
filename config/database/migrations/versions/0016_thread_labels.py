"""Add the labels of what a thread's runs have read."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    op.add_column("threads", sa.Column("labels_json", sa.Text()))
