"""The tables for SQLAlchemy Core; the migrations beside this folder create them.

Times are milliseconds since 1970, UTC, unless the line says otherwise. Columns called ``…_json`` hold
JSON text. docs/journal.md describes each table.
"""

from __future__ import annotations

from config.database.tables.columns import metadata
from config.database.tables.control import (
    approval_links,
    approvals,
    controls,
    idempotency_keys,
    internal_events,
    outbox,
    sticky_approvals,
    timers,
)
from config.database.tables.fleet import mcp_logins, mcp_manifests, tools, workers
from config.database.tables.identity import (
    api_keys,
    audit,
    audit_heads,
    envelope_nonces,
    feed_tickets,
    grants,
    principals,
    secrets,
    sessions,
)
from config.database.tables.observers import (
    failed_deliveries,
    metric_values,
    observer_cursors,
    observer_members,
    observers,
)
from config.database.tables.runs import (
    agent_aliases,
    agent_versions,
    definitions,
    events,
    messages,
    node_types,
    runs,
    sealed_originals,
    steps,
    summaries,
    thread_agents,
    threads,
)

__all__ = [
    "agent_aliases",
    "agent_versions",
    "api_keys",
    "approval_links",
    "approvals",
    "audit",
    "audit_heads",
    "controls",
    "definitions",
    "envelope_nonces",
    "events",
    "failed_deliveries",
    "feed_tickets",
    "grants",
    "idempotency_keys",
    "internal_events",
    "mcp_logins",
    "mcp_manifests",
    "messages",
    "metadata",
    "metric_values",
    "node_types",
    "observer_cursors",
    "observer_members",
    "observers",
    "outbox",
    "principals",
    "runs",
    "sealed_originals",
    "secrets",
    "sessions",
    "steps",
    "sticky_approvals",
    "summaries",
    "thread_agents",
    "threads",
    "timers",
    "tools",
    "workers",
]
