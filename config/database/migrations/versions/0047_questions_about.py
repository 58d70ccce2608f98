"""Add what a question says of its tool and its call, and the index of the questions that were answered last."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0047"
down_revision = "0046"


def upgrade() -> None:
    op.add_column("approvals", sa.Column("about_json", sa.Text))
    where = sa.text("decision IS NOT NULL")
    op.create_index(
        "ix_approvals_answered", "approvals", ["decided_ms", "id"], sqlite_where=where, postgresql_where=where
    )
