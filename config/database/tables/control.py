"""What is to be done about runs: messages to send, stops, approvals, timers; and what was accepted before."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
)

from config.database.tables.columns import Id, Key, metadata, partial_index

outbox = Table(
    "outbox",
    metadata,
    Column("id", Key, primary_key=True, autoincrement=True),
    Column("run_id", Id, nullable=False, index=True),
    Column("created_ms", BigInteger, nullable=False),
    sqlite_autoincrement=True,
)

controls = Table(
    "controls",
    metadata,
    Column("id", Key, primary_key=True, autoincrement=True),
    Column("run_id", Id, ForeignKey("runs.id"), nullable=False, index=True),
    Column("kind", String(16), nullable=False),
    Column("data_json", Text),
    Column("by", Id),
    Column("number", Integer),  # of a steer: its place among the thread's messages
    Column("state", String(16)),  # what the run's log says of it; NULL: nothing yet
    Column("consumed_at", Integer),  # the number of the event by which it was consumed
    Column("created_ms", BigInteger, nullable=False),
    Column("taken_ms", BigInteger),  # when it was answered; NULL: it is unread
    partial_index("ix_controls_unread", "run_id", "id", where="taken_ms IS NULL"),
    sqlite_autoincrement=True,
)

approvals = Table(
    "approvals",
    metadata,
    Column("id", Id, primary_key=True),
    Column("run_id", Id, ForeignKey("runs.id"), nullable=False, index=True),
    Column("kind", String(16), nullable=False, server_default="unknown"),  # why a person is asked
    Column("step_id", Id),
    Column("call_id", Text),
    Column("name", Text),
    Column("arguments_json", Text),
    Column("digest", String(64)),
    Column("tool_digest", String(64)),  # the version of the tool that a person was asked about
    Column("policy_version", String(64)),  # of the policy that requires the approval; NULL: the tool does
    Column("schema_json", Text),  # what edited arguments have to fit; NULL: they cannot be edited
    Column("decisions_json", Text, nullable=False),
    Column("on_expiry", String(16)),  # NULL: the run fails
    Column("default_json", Text),  # the call's result where an expiry takes it
    Column("approvers", Integer),  # how many persons have to approve; NULL: one
    Column("approved_json", Text),  # the principals that have approved, where several have to
    Column("scopes_json", Text),  # for which later calls it may hold too; NULL: none
    Column("scope_s", Integer),  # for how long at most
    Column("about_json", Text),  # what lists say of the tool and the call; NULL: an earlier release asked
    Column("state", Text),  # what a tool that asks keeps for when it is called with the answer
    Column("reason", Text),
    Column("expires_ms", BigInteger),
    Column("decision", String(16)),
    Column("decision_json", Text),
    Column("decided_by", Id),
    Column("decided_ms", BigInteger),
    Column("used_ms", BigInteger),
    Column("created_ms", BigInteger, nullable=False, index=True),
    partial_index("ix_approvals_answered", "decided_ms", "id", where="decision IS NOT NULL"),
    partial_index("ix_approvals_open", "created_ms", "id", where="decision IS NULL"),
)

sticky_approvals = Table(  # approvals that hold for later calls too
    "sticky_approvals",
    metadata,
    Column("id", Id, primary_key=True),
    Column("tenant", Id, nullable=False),
    Column("principal", Id, nullable=False),  # whose calls
    Column("agent_id", Id, nullable=False),
    Column(
        "thread_id", String(128), nullable=False
    ),  # of the run that asked; with the scope `thread` it is bound to it
    Column("private", Boolean, nullable=False),  # as that run is
    Column("scope", String(8), nullable=False),
    Column("name", Text, nullable=False),  # the tool's
    Column("tool_digest", String(64), nullable=False),
    Column("policy_version", String(64)),  # of the policy that requires the approval; NULL: the tool does
    Column("approval_id", Id, nullable=False),  # the approval beside which it was given
    Column("approved_by", Id, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("expires_ms", BigInteger, nullable=False),
    Column("revoked_ms", BigInteger),
    Column("revoked_by", Id),
    Column("behaviour", String(64)),  # of the agent's version that asked; NULL: an earlier release did
    Index(None, "tenant", "principal", "agent_id"),
)

approval_links = Table(  # signed links to one question for one person
    "approval_links",
    metadata,
    Column("id", Id, primary_key=True),
    Column("tenant", Id, nullable=False),
    Column("run_id", Id, nullable=False),
    Column("approval_id", Id, nullable=False),
    Column("principal", Id, nullable=False),  # for whom
    Column("digest", String(64)),  # of the arguments that the question is about
    Column("tool_digest", String(64)),
    Column("created_by", Id, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("expires_ms", BigInteger, nullable=False, index=True),
    Column("used_ms", BigInteger),
)

timers = Table(
    "timers",
    metadata,
    Column("id", Id, primary_key=True),
    Column("run_id", Id, ForeignKey("runs.id"), nullable=False, index=True),
    Column("kind", String(16), nullable=False),
    Column("due_ms", BigInteger, nullable=False, index=True),  # the database's clock
    Column("data_json", Text),
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("tenant", Id, nullable=False),
    Column("principal", Id, nullable=False),
    Column("method", String(8), nullable=False),
    Column("path", String(255), nullable=False),
    Column("key", String(255), nullable=False),
    Column("body_digest", String(64), nullable=False),
    Column("run_id", Id, nullable=False, index=True),  # or the id of the internal event that the request logged
    Column("created_ms", BigInteger, nullable=False),
    Column("delivered", String(8)),  # of a message that the run took, which existed already: merged or steered
    Column("control_id", Id),  # of the control that the request made
    PrimaryKeyConstraint("tenant", "principal", "method", "path", "key"),
)

internal_events = Table(  # what clients log about events outside; a trigger refuses UPDATE, and retention alone deletes
    "internal_events",
    metadata,
    Column("id", Id, primary_key=True),
    Column("tenant", Id, nullable=False),
    Column("principal", Id, nullable=False),
    Column("correlation_id", String(128), nullable=False),
    Column("event_type", String(128), nullable=False),
    Column("source", String(128), nullable=False),
    Column("payload_json", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False, index=True),
    Index(None, "tenant", "correlation_id", "created_ms", "id"),
)
