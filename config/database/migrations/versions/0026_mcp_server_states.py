"""Add how each MCP server is in a worker."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"


def upgrade() -> None:
    op.add_column("workers", sa.Column("mcp_servers_json", sa.Text()))
