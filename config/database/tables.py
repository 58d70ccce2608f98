"""The tables for SQLAlchemy Core; the migrations beside this file create them.

Times are milliseconds since 1970, UTC, unless the line says otherwise. Columns called ``…_json`` hold
JSON text. docs/journal.md describes each table.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

Key = BigInteger().with_variant(Integer, "sqlite")
"""SQLite increments automatically only a column of exactly this type."""
Id = String(64)


def _partial_index(name: str, *columns: str, where: str) -> Index:
    return Index(name, *columns, sqlite_where=text(where), postgresql_where=text(where))


threads = Table(
    "threads",
    metadata,
    Column("key", Key, primary_key=True, autoincrement=True),
    Column("id", String(128), nullable=False),  # as the client knows it, unique for its owner
    Column("tenant", Id, nullable=False),
    Column("principal", Id, nullable=False),
    Column("private", Boolean, nullable=False, server_default=false()),
    Column("agent_id", Id, nullable=False),  # of its first run
    Column("title", Text, nullable=False),
    Column("next_message", Integer, nullable=False),
    Column("open_run", Id),
    Column("created_ms", BigInteger, nullable=False),
    Column("updated_ms", BigInteger, nullable=False, index=True),
    UniqueConstraint("tenant", "principal", "id"),
    Index(None, "tenant", "principal", "updated_ms"),
)

# Agents other than its first that ever had a run in a thread, also where the run was removed: its messages stay.
thread_agents = Table(
    "thread_agents",
    metadata,
    Column("thread_key", Key, ForeignKey("threads.key"), nullable=False),
    Column("agent_id", Id, nullable=False),
    PrimaryKeyConstraint("thread_key", "agent_id"),
)

runs = Table(
    "runs",
    metadata,
    Column("id", Id, primary_key=True),
    Column("thread_key", Key, ForeignKey("threads.key"), nullable=False),
    Column("thread_id", String(128), nullable=False),
    Column("turn", Integer, nullable=False),  # the number of the user's message it answers
    Column("tenant", Id, nullable=False),
    Column("principal", Id, nullable=False),
    Column("private", Boolean, nullable=False, server_default=false()),  # seen by its principal and admins only
    Column("parent_id", Id),
    Column("kind", String(16), nullable=False),
    Column("agent_id", Id, nullable=False),
    Column("agent_name", Text, nullable=False),
    Column("definition_digest", String(64), nullable=False),
    Column("model", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("status", String(16), nullable=False),
    Column("reason", Text),
    Column("detail", Text),  # of a run that waits: for what, as a sentence
    Column("detached", Boolean, nullable=False),
    Column("owner", Id),
    Column("fence", Integer, nullable=False),
    Column("owned_fence", Integer, nullable=False, server_default="0"),  # its last owner's; 0: it had none
    Column("lease_until", BigInteger),  # the database's clock; on SQLite the machine's boot clock
    Column("lease_boot", Id),  # on SQLite, which boot ``lease_until`` counts from
    Column("reserved_to", Integer, nullable=False),  # the last event number given out
    Column("declared_to", Integer, nullable=False, server_default="0"),  # up to here every hole is declared
    # Its writers' commits; shows whether a commit with a lost reply was made.
    Column("commits", Integer, nullable=False, server_default="0"),
    Column("journal", Integer, nullable=False, server_default="1"),  # its journal's version (bus/journal/version.py)
    Column("queue", Id),  # that its agent named; NULL is the deployment's default
    Column("crashes", Integer, nullable=False),
    Column("crashes_json", Text),  # what was seen of each
    Column("stop_requested", Boolean, nullable=False),
    Column("observers_told", Boolean, nullable=False),
    Column("observers_json", Text, nullable=False),
    Column("budget_json", Text),
    Column("metadata_json", Text),
    Column("correlation_id", String(128)),  # the one in its metadata, where that is a text of so many characters
    Column("usage_json", Text),
    Column("cost_usd", Float),
    Column("steps", Integer, nullable=False),
    Column("output_json", Text),
    Column("error_code", Id),
    Column("created_ms", BigInteger, nullable=False),
    Column("started_ms", BigInteger),
    Column("ended_ms", BigInteger, index=True),
    Index(None, "thread_key", "turn"),
    Index(None, "tenant", "created_ms", "id"),
    Index(None, "tenant", "principal", "created_ms", "id"),
    # What a claim and an end look for, however many runs a thread has had.
    _partial_index("ix_runs_open_of_thread", "thread_key", "turn", where="ended_ms IS NULL"),
    # What limits count: a tenant's and a principal's open and queued runs.
    _partial_index("ix_runs_open_of_tenant", "tenant", "principal", "status", where="ended_ms IS NULL"),
    _partial_index("ix_runs_correlated", "tenant", "correlation_id", where="correlation_id IS NOT NULL"),
    Index(None, "status", "lease_until"),
    _partial_index("ix_runs_untold", "observers_told", where="NOT observers_told"),
)

definitions = Table(
    "definitions",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("agent_id", Id, nullable=False),
    Column("content_json", Text, nullable=False),  # what the agent's file said when a run was accepted with it
    Column("created_ms", BigInteger, nullable=False),
)

messages = Table(
    "messages",
    metadata,
    Column("thread_key", Key, ForeignKey("threads.key"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("turn", Integer, nullable=False),  # messages are read in the order (turn, number)
    Column("run_id", Id, nullable=False, index=True),
    Column("id", Id, nullable=False),
    Column("role", String(16), nullable=False),
    Column("data_json", Text, nullable=False),
    Column("partial", Boolean, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    PrimaryKeyConstraint("thread_key", "number"),
    Index(None, "thread_key", "turn", "number"),
)

steps = Table(
    "steps",
    metadata,
    Column("id", Id, primary_key=True),
    Column("run_id", Id, ForeignKey("runs.id"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("kind", String(16), nullable=False),  # model, tool or wait
    Column("name", Text, nullable=False),
    Column("call_id", Text),
    Column("effect", String(16)),
    Column("status", String(16), nullable=False),  # planned, started; done, failed, refused, cancelled or unknown
    Column("arguments_digest", String(64), nullable=False),
    Column("idempotency_key", Id, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("fence", Integer, nullable=False),
    Column("result_json", Text),
    Column("usage_json", Text),
    Column("cost_usd", Float),
    Column("started_ms", BigInteger, nullable=False),
    Column("ended_ms", BigInteger),
    UniqueConstraint("run_id", "number"),
)

events = Table(
    "events",
    metadata,
    Column("position", Key, primary_key=True, autoincrement=True),
    Column("run_id", Id, ForeignKey("runs.id"), nullable=False),
    Column("first_seq", Integer, nullable=False),
    Column("seq", Integer, nullable=False),
    Column("type", String(16), nullable=False),  # an event's type, or ``block`` for sealed pieces
    Column("fence", Integer, nullable=False),
    Column("message_id", Id),
    Column("step_id", Id),
    Column("data_json", Text, nullable=False),
    UniqueConstraint("run_id", "seq"),
    sqlite_autoincrement=True,
)

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
    Column("created_ms", BigInteger, nullable=False),
    Column("taken_ms", BigInteger),
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
    Column("decisions_json", Text, nullable=False),
    Column("reason", Text),
    Column("expires_ms", BigInteger),
    Column("decision", String(16)),
    Column("decision_json", Text),
    Column("decided_by", Id),
    Column("decided_ms", BigInteger),
    Column("used_ms", BigInteger),
    Column("created_ms", BigInteger, nullable=False),
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

secrets = Table(
    "secrets",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("value", Text, nullable=False),  # made by the first process that needs it, the same for all
    Column("created_ms", BigInteger, nullable=False),
)

principals = Table(
    "principals",
    metadata,
    Column("tenant", Id, nullable=False),
    Column("id", Id, nullable=False),
    Column("disabled", Boolean, nullable=False, server_default=false()),  # none of its credentials is valid
    Column("created_ms", BigInteger, nullable=False),
    Column("roles_json", Text),  # of its last sign-in; NULL: it never signed in
    PrimaryKeyConstraint("tenant", "id"),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", Id, primary_key=True),
    Column("tenant", Id, nullable=False),
    Column("name", Id, nullable=False),  # the principal that it acts as
    Column("digest", String(64), nullable=False),  # HMAC-SHA256 of the key
    Column("roles_json", Text, nullable=False),
    Column("verbs_json", Text),  # NULL is all
    Column("agents_json", Text),  # NULL is all
    Column("created_by", Id, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("expires_ms", BigInteger),
    Column("used_ms", BigInteger),  # at most a minute old
    Column("revoked_ms", BigInteger),
    Index(None, "tenant", "created_ms"),
)

sessions = Table(
    "sessions",
    metadata,
    Column("id", Id, primary_key=True),
    Column("digest", String(64), nullable=False),  # HMAC-SHA256 of the cookie's text
    Column("tenant", Id, nullable=False),
    Column("principal", Id, nullable=False),
    Column("display_name", Text, nullable=False),  # as the identity provider names the person; may be empty
    Column("sign_in_digest", String(64), nullable=False, unique=True),  # a sign-in makes one session
    Column("created_ms", BigInteger, nullable=False),
    Column("seen_ms", BigInteger, nullable=False),  # at most a minute old
    Column("idle_ms", BigInteger, nullable=False),  # how long it lasts without use
    Column("expires_ms", BigInteger, nullable=False, index=True),
    Column("ended_ms", BigInteger),  # by a sign-out
    Index(None, "tenant", "principal"),
)

feed_tickets = Table(
    "feed_tickets",
    metadata,
    Column("digest", String(64), primary_key=True),  # HMAC-SHA256 of the ticket
    Column("run_id", Id, nullable=False),
    Column("caller_json", Text, nullable=False),  # who asked for it, and with which credential
    Column("expires_ms", BigInteger, nullable=False, index=True),
)

workers = Table(
    "workers",
    metadata,
    Column("id", Id, primary_key=True),
    Column("host", Text, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("pool", String(16), nullable=False),
    Column("slots", Integer, nullable=False),
    Column("busy", Integer, nullable=False),
    Column("started_ms", BigInteger, nullable=False),
    Column("seen_ms", BigInteger, nullable=False),  # wall clock of the database; on SQLite the machine's
    Column("clock_ms", BigInteger),  # the worker's own clock at that moment
    Column("queue", Id),  # the default queue, as the worker knows it
    Column("queues", Text),  # those it serves, with commas between them
    Column("version", String(32)),
)

tools = Table(
    "tools",
    metadata,
    Column("worker_id", Id, nullable=False),  # the worker that has loaded it
    Column("digest", String(64), nullable=False),  # SHA-256 of what callers see of it
    Column("name", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("schema_json", Text, nullable=False),  # of its arguments
    Column("effect", String(16), nullable=False),
    Column("timeout_s", Float, nullable=False),
    Column("agents_json", Text, nullable=False),  # the agents that use it like this
    PrimaryKeyConstraint("worker_id", "digest"),
)

audit = Table(  # append-only: triggers refuse UPDATE and DELETE; no foreign keys, so it outlives what it names
    "audit",
    metadata,
    Column("tenant", Id, nullable=False),
    Column("number", BigInteger, nullable=False),  # 1, 2, 3 ... in the tenant
    Column("at_ms", BigInteger, nullable=False),
    Column("action", String(32), nullable=False),
    Column("outcome", String(16), nullable=False),
    Column("principal", Text, nullable=False),
    Column("credential", String(16), nullable=False),
    Column("credential_id", Text, nullable=False),
    Column("target", String(32), nullable=False),
    Column("target_id", Text, nullable=False),
    Column("facts_json", Text, nullable=False),
    Column("previous", String(64), nullable=False),  # the digest of the entry before it
    Column("digest", String(64), nullable=False),
    PrimaryKeyConstraint("tenant", "number"),
    Index(None, "tenant", "action", "target_id", "number"),
)

audit_heads = Table(
    "audit_heads",
    metadata,
    Column("tenant", Id, primary_key=True),
    Column("number", BigInteger, nullable=False, server_default="0"),  # of the tenant's last entry
    Column("digest", String(64), nullable=False),
    Column("anchored", BigInteger, nullable=False, server_default="0"),  # the last number written to the log files
    Column("anchored_ms", BigInteger, nullable=False, server_default="0"),
)
