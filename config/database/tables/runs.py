"""Threads, runs, and what their log consists of."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    PrimaryKeyConstraint,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
)

from config.database.tables.columns import Id, Key, metadata, partial_index

threads = Table(
    "threads",
    metadata,
    Column("key", Key, primary_key=True, autoincrement=True),
    Column("id", String(128), nullable=False),  # as the client knows it, unique for its owner
    Column("tenant", Id, nullable=False),
    Column("principal", Id, nullable=False),
    Column("private", Boolean, nullable=False, server_default=false()),
    Column("agent_id", Id, nullable=False),  # of its first run, or to which one was handed over
    Column("title", Text, nullable=False),
    Column("next_message", Integer, nullable=False),
    Column("open_run", Id),
    Column("labels_json", Text),  # what its runs have read, as their tools label it; NULL: nothing that has a label
    Column("forked_from", String(128)),  # the id of the thread whose first messages it has; NULL: it is no fork
    Column("forked_to", Integer),  # the highest number of those messages; 0: it has none
    Column("parent_id", Id),  # the run for whose child it was made; NULL: it is no child's, so that lists show it
    Column("created_ms", BigInteger, nullable=False),
    Column("updated_ms", BigInteger, nullable=False, index=True),
    UniqueConstraint("tenant", "principal", "id"),
    Index(None, "tenant", "principal", "updated_ms"),
)

# Agents other than that one that ever had a run in a thread, also where the run was removed: its messages stay.

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
    Column("roles_json", Text),  # the roles with which its principal started it; NULL: none
    Column("credential", String(16)),  # the kind of credential that started it; NULL: an earlier release did
    Column("credential_id", Id),
    Column("agents_json", Text),  # the agents for which that credential is; NULL: all
    Column("grant_id", Id),  # the privilege grant that it was started with
    Column("trace_id", String(32)),  # of the request that started it, or its own; NULL: an earlier release started it
    Column("parent_span", String(16)),  # the caller's span in that trace; of a child the span of its parent's step
    Column(
        "context_json", Text
    ),  # what its entry point declared of it (config/identity/contexts.py); NULL: an earlier release
    Column("labels_json", Text),  # what it has read, as its tools label it; NULL: nothing that has a label
    Column("private", Boolean, nullable=False, server_default=false()),  # seen by its principal and admins only
    Column("origin_id", Id),  # the run whose recorded steps and outcomes it continues from; NULL: it is a run by itself
    Column("origin_json", Text),  # how: its kind, the first step that is not copied, and what tools are asked
    Column("parent_id", Id),  # the run that delegated it; NULL: no run did
    Column("parent_step", Id),  # the parent's step whose result it is: one child at most
    Column("kind", String(16), nullable=False),
    Column("agent_id", Id, nullable=False),
    Column("agent_name", Text, nullable=False),
    Column("handed_from_json", Text),  # the agents that worked on it before, in order; NULL: none
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
    Column("priority", SmallInteger, nullable=False, server_default="0"),  # the smaller begins first; 0: normal
    Column("on_waiting", String(8)),  # what its thread does while it waits for a person; NULL: the thread waits too
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
    Column(
        "duration_ms", BigInteger
    ),  # from its acceptance to its end; NULL: it is open, or an earlier release ended it
    Column(
        "work_ms", BigInteger
    ),  # how long workers owned it, up to the last commit; NULL: an earlier release began it
    Index(None, "thread_key", "turn"),
    Index(None, "tenant", "created_ms", "id"),
    Index(None, "tenant", "principal", "created_ms", "id"),
    # What a claim and an end look for, however many runs a thread has had.
    partial_index("ix_runs_open_of_thread", "thread_key", "turn", where="ended_ms IS NULL"),
    # What limits count: a tenant's and a principal's open and queued runs.
    partial_index("ix_runs_open_of_tenant", "tenant", "principal", "status", where="ended_ms IS NULL"),
    partial_index("ix_runs_failed", "tenant", "ended_ms", where="error_code IS NOT NULL"),  # the board shows a day's
    # The orders of lists besides the time; both values are written at the end alone.
    partial_index("ix_runs_longest", "tenant", "duration_ms", "id", where="duration_ms IS NOT NULL"),
    partial_index("ix_runs_dearest", "tenant", "cost_usd", "id", where="cost_usd IS NOT NULL"),
    partial_index("ix_runs_traced", "tenant", "trace_id", where="trace_id IS NOT NULL"),
    partial_index("ix_runs_correlated", "tenant", "correlation_id", where="correlation_id IS NOT NULL"),
    partial_index("ix_runs_origin", "origin_id", where="origin_id IS NOT NULL"),
    Index(None, "status", "lease_until"),
    # Which queued run of a tenant and queue begins first, however many are queued. Not where status = 'queued': SQLite
    # would prepare each statement anew that has the status as a parameter, to see whether the index has its rows.
    partial_index("ix_runs_in_order", "tenant", "queue", "status", "priority", "created_ms", where="ended_ms IS NULL"),
    partial_index("ix_runs_children", "parent_id", where="parent_id IS NOT NULL"),
    # What a reaper looks for, however many runs wait and however many children have ended.
    partial_index("ix_runs_open_children", "ended_ms", "stop_requested", where="parent_id IS NOT NULL"),
    partial_index("uq_runs_parent_step", "parent_step", where="parent_step IS NOT NULL", unique=True),
    partial_index("ix_runs_untold", "observers_told", where="NOT observers_told"),
)

definitions = Table(
    "definitions",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("agent_id", Id, nullable=False),
    Column("content_json", Text, nullable=False),  # what the agent's file said when a run was accepted with it
    Column("created_ms", BigInteger, nullable=False),
)

agent_versions = Table(  # each content of an agent's file that served; deleted with the last run that has it, unless it
    "agent_versions",  # is the agent's newest one or has an alias
    metadata,
    Column("agent_id", Id, nullable=False),
    Column("number", Integer, nullable=False),
    Column("digest", String(64), nullable=False),  # of the definition that has the content
    Column("behaviour", String(64), nullable=False),  # SHA-256 of what decides how a run behaves
    Column("created_ms", BigInteger, nullable=False),
    Column("seen_ms", BigInteger, nullable=False),  # when a process last found it in the agent's file
    PrimaryKeyConstraint("agent_id", "number"),
    UniqueConstraint("agent_id", "digest"),
)

agent_aliases = Table(
    "agent_aliases",
    metadata,
    Column("agent_id", Id, nullable=False),
    Column("alias", String(16), nullable=False),  # stable or canary
    Column("number", Integer, nullable=False),
    Column("share", Integer, nullable=False),  # of new threads, in percent
    Column("previous", Integer),  # the version that had the alias before
    Column("changed_by", Text, nullable=False),
    Column("changed_ms", BigInteger, nullable=False),
    PrimaryKeyConstraint("agent_id", "alias"),
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
    Column("undone", Boolean, nullable=False, server_default=false()),  # shown to people, and not sent to models
    Column("created_ms", BigInteger, nullable=False),
    PrimaryKeyConstraint("thread_key", "number"),
    Index(None, "thread_key", "turn", "number"),
)

summaries = Table(  # of what was said in threads, each made for one agent; a row never changes but for its last columns
    "summaries",
    metadata,
    Column("id", Id, primary_key=True),
    # An earlier release removes threads without knowing this table.
    Column("thread_key", Key, ForeignKey("threads.key", ondelete="CASCADE"), nullable=False),
    Column("agent_id", Id, nullable=False),
    Column("from_number", Integer, nullable=False),  # the first message that it replaces
    Column("upto_turn", Integer, nullable=False),  # the place of the last one in reading order
    Column("upto_number", Integer, nullable=False),
    Column("text", Text, nullable=False),
    Column("facts_json", Text, nullable=False),  # pinned facts, and the tool calls with their outcomes
    Column("model", Text, nullable=False),
    Column("decision_json", Text),  # what the policy decided about the model call
    Column("usage_json", Text),
    Column("cost_usd", Float),
    Column("created_ms", BigInteger, nullable=False),
    Column("used_by", Id),  # the run that was given it first, whose log has the event
    Column("dropped_ms", BigInteger),  # since when it counts no more; NULL: it counts
    Column("dropped_by", Id),
    Index(None, "thread_key", "agent_id", "upto_turn", "upto_number"),
)

steps = Table(
    "steps",
    metadata,
    Column("id", Id, primary_key=True),
    Column("run_id", Id, ForeignKey("runs.id"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("kind", String(16), nullable=False),  # model, tool, sample, guard; of a workflow also node, item or wait
    Column("name", Text, nullable=False),
    Column("node", Text),  # of a workflow: the path of the node, items/17/charge
    Column("input_json", Text),  # of a workflow: what the node was given
    Column("call_id", Text),
    Column("effect", String(16)),
    Column("status", String(16), nullable=False),  # planned, started; done, failed, refused, cancelled or unknown
    Column("arguments_digest", String(64), nullable=False),
    Column("decision_json", Text),  # what the policy decided before the call (config/policy_decision.py)
    Column("idempotency_key", Id, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("fence", Integer, nullable=False),
    Column("result_json", Text),
    Column("labels_json", Text),  # of a workflow: the labels of the node's output
    Column("spans_json", Text),  # the HTTP requests, statements and file operations of the call
    Column("usage_json", Text),
    Column("cost_usd", Float),
    Column("started_ms", BigInteger, nullable=False),
    Column("ended_ms", BigInteger),
    UniqueConstraint("run_id", "number"),
)

sealed_originals = Table(  # from which a guardrail removed something; deleted with their run
    "sealed_originals",
    metadata,
    Column("id", Id, primary_key=True),
    Column("run_id", Id, ForeignKey("runs.id"), nullable=False, index=True),
    Column("what", String(300), nullable=False),  # input, answer, thinking, or result or arguments and the tool's name
    Column("key_name", String(16), nullable=False),  # the start of the SHA-256 of the key
    Column("sealed", Text, nullable=False),  # nonce and AES-256-GCM of JSON, in base64
    Column("created_ms", BigInteger, nullable=False),
)

node_types = Table(  # the types of workflows' nodes; config/definitions/workflows/node_types.py seeds it
    "node_types",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("handler", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("config_schema_json", Text),  # NULL: not seeded since the migration
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
