"""Add the audit log: its entries, which no statement may change or delete, and the head of each tenant's chain."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

REFUSAL = "the audit log is append-only"


def upgrade() -> None:
    op.create_table(
        "audit",
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("action", sa.String(32), nullable=False),
        sa.Column("outcome", sa.String(16), nullable=False),
        sa.Column("principal", sa.Text(), nullable=False),
        sa.Column("credential", sa.String(16), nullable=False),
        sa.Column("credential_id", sa.Text(), nullable=False),
        sa.Column("target", sa.String(32), nullable=False),
        sa.Column("target_id", sa.Text(), nullable=False),
        sa.Column("facts_json", sa.Text(), nullable=False),
        sa.Column("previous", sa.String(64), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "number", name=op.f("pk_audit")),
    )
    op.create_index(
        op.f("ix_audit_tenant_action_target_id_number"), "audit", ["tenant", "action", "target_id", "number"]
    )
    op.create_table(
        "audit_heads",
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("anchored", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("anchored_ms", sa.BigInteger(), nullable=False, server_default="0"),
        sa.PrimaryKeyConstraint("tenant", name=op.f("pk_audit_heads")),
    )
    if op.get_bind().dialect.name == "sqlite":
        for verb in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER audit_refuses_{verb.lower()} BEFORE {verb} ON audit "
                f"BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END"
            )
        op.execute(  # INSERT OR REPLACE deletes without that trigger
            "CREATE TRIGGER audit_refuses_replace BEFORE INSERT ON audit WHEN EXISTS "
            "(SELECT 1 FROM audit WHERE tenant = NEW.tenant AND number = NEW.number) "
            f"BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END"
        )
        return
    op.execute(
        "CREATE FUNCTION audit_refuses_change() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{REFUSAL}'; END $$"
    )
    op.execute(
        "CREATE TRIGGER audit_refuses_change BEFORE UPDATE OR DELETE OR TRUNCATE ON audit "
        "FOR EACH STATEMENT EXECUTE FUNCTION audit_refuses_change()"
    )
