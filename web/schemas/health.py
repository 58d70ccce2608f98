"""The state of the parts."""

from __future__ import annotations

from typing import Literal

from web.calls.fields import Answer, Maybe


class McpServerHealth(Answer):
    """How an MCP server that agents use is in the living workers."""

    state: Literal["invalid", "needs_login", "backing_off", "starting", "ready", "idle", "configured", "disabled"]
    """The most urgent of the workers' states, in this order; ``docs/mcp-servers.md`` says what each means."""
    workers: dict[str, int]
    """How many workers have which state."""
    transport: Maybe[Literal["stdio", "http", "sse"]] = None
    sessions: Maybe[int] = None
    """Open sessions of all workers."""
    tools: Maybe[int] = None
    """Tools that it listed last."""
    reason: Maybe[str] = None
    """Why it cannot be used now, as a part of a sentence."""
    next_try_s: Maybe[float] = None
    """Seconds until it is tried again, if a call comes."""
    changed: Maybe[list[str]] = None
    """Its tools whose definition no person has accepted yet."""


class MissingKeyHealth(Answer):
    """A variable with a model's key that is not set in some workers."""

    agents: list[str]
    """The agents that need it."""
    workers: int
    """Workers that lack it; fewer than are alive: the others take such runs, and the status is ``degraded``."""


class Health(Answer):
    """The state of each part, for people; the status alone without a credential."""

    status: Literal["ok", "degraded"]
    database: Maybe[str] = None
    """``ok``, or the code of its error."""
    detail: Maybe[str] = None
    """What is wrong with the database, as a sentence."""
    redis: Maybe[Literal["ok", "unreachable", "refuses_writes", "shared", "none"]] = None
    workers: Maybe[int] = None
    """Workers that are alive."""
    workers_starting: Maybe[int] = None
    """Workers that an ``up`` on the same state folder is starting."""
    abandoned_calls: Maybe[dict[str, int]] = None
    """The calls that workers gave up and that have not ended, by tool; for callers who may know of machines."""
    missing_keys: Maybe[dict[str, MissingKeyHealth]] = None
    """The variables of models' keys that workers lack; for callers who may know of machines."""
    mcp_servers: Maybe[dict[str, McpServerHealth]] = None
    """How each MCP server is, by name; for callers who may know of machines."""
    viewers: Maybe[int] = None
    """Streams that this process serves."""


class Ready(Answer):
    """This process accepts runs, and they are executed."""

    status: Literal["ready"]
    unserved_queues: Maybe[list[str]] = None
    """Queues that agents use and no living worker serves; for callers who may know of machines."""
    detail: Maybe[str] = None
    """What to do about them, as a sentence."""


class NotReady(Answer):
    """The database takes no writes, or no living worker serves a queue that agents use."""

    status: Literal["unavailable"]
    unserved_queues: Maybe[list[str]] = None
    """The queues that agents use; for callers who may know of machines."""
    detail: Maybe[str] = None
    """What to do about them, as a sentence."""
