"""Add the table of internal events, which no statement may change, and the correlation ids of runs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"

REFUSAL = "internal events are immutable"


def upgrade() -> None:
    op.add_column("runs", sa.Column("correlation_id", sa.String(128)))
    where = sa.text("correlation_id IS NOT NULL")
    op.create_index(
        "ix_runs_correlated", "runs", ["tenant", "correlation_id"], sqlite_where=where, postgresql_where=where
    )
    op.create_table(
        "internal_events",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("principal", sa.String(64), nullable=False),
        sa.Column("correlation_id", sa.String(128), nullable=False),
        sa.Column("event_type", sa.String(128), nullable=False),
        sa.Column("source", sa.String(128), nullable=False),
        sa.Column("payload_json", sa.Text(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_internal_events")),
    )
    op.create_index(op.f("ix_internal_events_created_ms"), "internal_events", ["created_ms"])
    op.create_index(
        op.f("ix_internal_events_tenant_correlation_id_created_ms_id"),
        "internal_events",
        ["tenant", "correlation_id", "created_ms", "id"],
    )
    if op.get_bind().dialect.name == "sqlite":
        op.execute(
            "CREATE TRIGGER internal_events_refuse_update BEFORE UPDATE ON internal_events "
            f"BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END"
        )
        op.execute(  # INSERT OR REPLACE changes a row without that trigger
            "CREATE TRIGGER internal_events_refuse_replace BEFORE INSERT ON internal_events "
            "WHEN EXISTS (SELECT 1 FROM internal_events WHERE id = NEW.id) "
            f"BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END"
        )
        return
    op.execute(
        "CREATE FUNCTION internal_events_refuse_update() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{REFUSAL}'; END $$"
    )
    op.execute(
        "CREATE TRIGGER internal_events_refuse_update BEFORE UPDATE ON internal_events "
        "FOR EACH STATEMENT EXECUTE FUNCTION internal_events_refuse_update()"
    )
