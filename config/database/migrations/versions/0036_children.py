"""Add the parent's step to child runs, and the parent to their threads."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"


def upgrade() -> None:
    op.add_column("runs", sa.Column("parent_step", sa.String(64)))
    op.add_column("threads", sa.Column("parent_id", sa.String(64)))
    _index("ix_runs_children", "parent_id")
    _index("uq_runs_parent_step", "parent_step", unique=True)


def _index(name: str, column: str, *, unique: bool = False) -> None:
    where = sa.text(f"{column} IS NOT NULL")
    op.create_index(name, "runs", [column], unique=unique, sqlite_where=where, postgresql_where=where)
