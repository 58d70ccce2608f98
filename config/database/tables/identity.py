"""Who may ask, and what was asked: principals, their credentials, the audit log."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Index, PrimaryKeyConstraint, String, Table, Text, false

from config.database.tables.columns import Id, metadata

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

envelope_nonces = Table(  # of signed envelopes that were used, for as long as a verifier could accept them again
    "envelope_nonces",
    metadata,
    Column("key_id", Id, nullable=False),
    Column("nonce", Id, nullable=False),
    Column("expires_ms", BigInteger, nullable=False, index=True),
    PrimaryKeyConstraint("key_id", "nonce"),
)

grants = Table(  # privilege grants, each for one run; the text that uses one is not stored
    "grants",
    metadata,
    Column("id", Id, primary_key=True),
    Column("tenant", Id, nullable=False),
    Column("principal", Id, nullable=False),  # who may use it
    Column("agent_id", Id, nullable=False),
    Column("reason", Text, nullable=False),
    Column("issued_by", Id, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("expires_ms", BigInteger, nullable=False),
    Column("run_id", Id),  # the run that has used it
    Column("used_ms", BigInteger),
    Column("revoked_ms", BigInteger),
    Index(None, "tenant", "created_ms"),
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
