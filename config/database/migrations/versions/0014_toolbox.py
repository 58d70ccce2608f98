"""Add what is decided about each call, its spans, and what decisions look at: a run's roles and labels."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.add_column("runs", sa.Column("roles_json", sa.Text()))
    op.add_column("runs", sa.Column("labels_json", sa.Text()))
    op.add_column("steps", sa.Column("decision_json", sa.Text()))
    op.add_column("steps", sa.Column("spans_json", sa.Text()))
    op.add_column("approvals", sa.Column("policy_version", sa.String(64)))
