"""Add what a workflow's steps have besides, and the table of node types with those that ship."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0043"
down_revision = "0042"

TYPES = (
    ("START", "passthrough"),
    ("END", "passthrough"),
    ("TRANSFORM", "activity:execute_transform_node_activity"),
    ("FUNCTION", "activity:execute_function_node_activity"),
    ("LLM", "activity:execute_llm_node_activity"),
    ("CHOICE", "workflow:evaluate_choice"),
    ("CHOICE_LLM", "activity:execute_llm_router_activity"),
    ("SUB_WORKFLOW", "workflow:execute_child"),
    ("PARALLEL", "workflow:execute_parallel"),
    ("WAIT", "temporal:wait_for_event"),
    ("APPROVAL_GATE", "temporal:approval_gate"),
    ("FOR_EACH", "workflow_code:for_each"),
    ("FILTER", "activity:execute_filter_node_activity"),
    ("REDUCE", "activity:execute_reduce_node_activity"),
)


def upgrade() -> None:
    for column in ("node", "input_json", "labels_json"):
        op.add_column("steps", sa.Column(column, sa.Text))
    types = op.create_table(
        "node_types",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("handler", sa.Text, nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("config_schema_json", sa.Text),
    )
    op.bulk_insert(types, [{"name": name, "handler": handler, "description": ""} for name, handler in TYPES])
