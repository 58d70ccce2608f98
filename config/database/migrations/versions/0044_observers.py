"""Add the observers that tail the log, what one of them counts, and the load of workers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0044"
down_revision = "0043"

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "observers",
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("class_path", sa.Text(), nullable=False),
        sa.Column("delivery", sa.String(16), nullable=False),
        sa.Column("selection_json", sa.Text()),
        sa.Column("paused", sa.Boolean(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_observers")),
    )
    op.create_table(
        "observer_members",
        sa.Column("observer", sa.String(64), nullable=False),
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("version", sa.String(32), nullable=False),
        sa.Column("seen_ms", sa.BigInteger(), nullable=False),
        _of_observer("observer_members"),
        sa.PrimaryKeyConstraint("observer", "id", name=op.f("pk_observer_members")),
    )
    op.create_table(
        "observer_cursors",
        sa.Column("observer", sa.String(64), nullable=False),
        sa.Column("partition", sa.SmallInteger(), nullable=False),
        sa.Column("position", KEY, nullable=False),
        sa.Column("gaps_json", sa.Text()),
        sa.Column("owner", sa.String(64)),
        sa.Column("delivered", sa.BigInteger(), nullable=False),
        sa.Column("dropped", sa.BigInteger(), nullable=False),
        _of_observer("observer_cursors"),
        sa.PrimaryKeyConstraint("observer", "partition", name=op.f("pk_observer_cursors")),
    )
    _failed_deliveries()
    op.create_table(
        "metric_values",
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("labels_json", sa.String(600), nullable=False),
        sa.Column("slot_ms", sa.BigInteger(), nullable=False),
        sa.Column("value", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("name", "labels_json", "slot_ms", name=op.f("pk_metric_values")),
    )
    op.create_index(op.f("ix_metric_values_slot_ms"), "metric_values", ["slot_ms"])
    for column in ("cpu_share", "memory_share"):
        op.add_column("workers", sa.Column(column, sa.Float))
    op.add_column("workers", sa.Column("dropped_json", sa.Text))


def _failed_deliveries() -> None:
    op.create_table(
        "failed_deliveries",
        sa.Column("id", KEY, nullable=False, autoincrement=True),
        sa.Column("observer", sa.String(64), nullable=False),
        sa.Column("partition", sa.SmallInteger(), nullable=False),
        sa.Column("run_id", sa.String(64), nullable=False),
        sa.Column("position", KEY, nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("type", sa.String(16), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("first_ms", sa.BigInteger(), nullable=False),
        sa.Column("next_ms", sa.BigInteger()),
        _of_observer("failed_deliveries"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_failed_deliveries")),
        sa.UniqueConstraint("observer", "position", name=op.f("uq_failed_deliveries_observer_position")),
    )
    op.create_index(op.f("ix_failed_deliveries_run_id"), "failed_deliveries", ["run_id"])
    columns = ["observer", "state", "next_ms"]
    op.create_index(op.f("ix_failed_deliveries_observer_state_next_ms"), "failed_deliveries", columns)


def _of_observer(table: str) -> sa.ForeignKeyConstraint:
    name = op.f(f"fk_{table}_observer")
    return sa.ForeignKeyConstraint(["observer"], ["observers.name"], name=name, ondelete="CASCADE")
