"""Add the nonces of signed envelopes that were used."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    op.create_table(
        "envelope_nonces",
        sa.Column("key_id", sa.String(64), nullable=False),
        sa.Column("nonce", sa.String(64), nullable=False),
        sa.Column("expires_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key_id", "nonce", name=op.f("pk_envelope_nonces")),
    )
    op.create_index(op.f("ix_envelope_nonces_expires_ms"), "envelope_nonces", ["expires_ms"])
