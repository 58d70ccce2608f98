"""The workers, the tools they have loaded, and what is kept of MCP servers: definitions of tools, and logins."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Float, Integer, PrimaryKeyConstraint, String, Table, Text, false

from config.database.tables.columns import Id, metadata

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
    Column("cpu_share", Float),  # of one processor since the row before, 0 to 1; NULL from an older release
    Column("memory_share", Float),  # of what its container or machine has
    Column("dropped_json", Text),  # observer -> payloads that were dropped because it was too slow
    Column("abandoned_json", Text),  # tool -> calls that were given up and have not ended
    Column("mcp_servers_json", Text),  # MCP server -> how it is in this process
    Column("draining", Boolean, nullable=False, server_default=false()),  # it takes no more runs
    Column("missing_keys_json", Text),  # variables of models' keys that are not set in it -> the agents that need them
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
    Column("metadata_json", Text),  # version, maintainer, classification and so on; NULL from an older release
    PrimaryKeyConstraint("worker_id", "digest"),
)

mcp_manifests = Table(
    "mcp_manifests",
    metadata,
    Column("server", Id, nullable=False),
    Column("tool", String(128), nullable=False),
    Column("digest", String(64), nullable=False),  # SHA-256 of the definition
    Column("content_json", Text, nullable=False),  # name, description, schemas and hints
    Column("created_ms", BigInteger, nullable=False),  # when the tool was first seen
    Column("changed_ms", BigInteger),  # when a person accepted another definition
    PrimaryKeyConstraint("server", "tool"),
)

mcp_logins = Table(
    "mcp_logins",
    metadata,
    Column("tenant", Id, nullable=False),
    Column("server", Id, nullable=False),
    Column("id", Id, nullable=False),  # another one for each login
    Column("bound_to", String(64), nullable=False),  # SHA-256 of the server's address and of who the client is
    Column("version", Integer, nullable=False),  # counts the tokens of this login
    Column("key_name", String(16), nullable=False),  # the key that sealed it
    Column("sealed", Text, nullable=False),  # tokens, the client, and the authorization server: AES-256-GCM, base64
    Column("expires_ms", BigInteger),  # when the access token does; NULL where that is not known
    Column("renewing_until_ms", BigInteger),  # until when one process alone may renew the tokens
    Column("created_ms", BigInteger, nullable=False),
    Column("changed_ms", BigInteger, nullable=False),
    PrimaryKeyConstraint("tenant", "server"),
)
