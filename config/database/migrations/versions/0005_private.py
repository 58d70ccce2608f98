"""Add the columns that hide a private agent's runs and threads from the other principals of their tenant."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    for table in ("threads", "runs"):
        op.add_column(table, sa.Column("private", sa.Boolean(), nullable=False, server_default=sa.false()))
    # For lists of a tenant's and of a principal's rows, in their order.
    op.drop_index(op.f("ix_runs_created_ms"), "runs")
    op.create_index(op.f("ix_runs_tenant_created_ms_id"), "runs", ["tenant", "created_ms", "id"])
    op.create_index(op.f("ix_runs_tenant_principal_created_ms_id"), "runs", ["tenant", "principal", "created_ms", "id"])
    op.create_index(op.f("ix_threads_tenant_principal_updated_ms"), "threads", ["tenant", "principal", "updated_ms"])
