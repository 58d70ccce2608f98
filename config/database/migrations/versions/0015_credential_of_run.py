"""Add the credential that a run was started with, by which its principal's roles are looked up again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    op.add_column("runs", sa.Column("credential", sa.String(16)))
    op.add_column("runs", sa.Column("credential_id", sa.String(64)))
