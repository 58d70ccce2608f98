"""What the server answers about many runs and about what executes them, as typed records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

from callboard_client.records import Record


class RunFilters(TypedDict, total=False):
    """Which runs a list or a count is of: those that fit all fields."""

    status: str | None
    """A state; ``open``: all that have not ended."""
    agent: str | None
    thread_id: str | None
    owner: str | None
    trace_id: str | None
    correlation_id: str | None
    since: str | None
    """Accepted then or later: a time (RFC 3339), or a length back from now, ``1h``. With ``code`` ended then or
    later."""
    until: str | None
    q: str | None
    """Words of the title; or the beginning of an id, or its end from six characters on."""
    code: str | None
    """Failed with this code; ``any``: failed."""
    queue: str | None
    kind: str | None
    """agent, tool or workflow."""
    model: str | None
    tool: str | None
    """Has called this tool."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunCounts(Record):
    """How many runs there are by one value."""

    by: str
    total: int
    groups: Sequence[Mapping[str, Any]] = ()
    """Each with ``value`` and ``count``, the largest first; by ``code`` also ``latest_run_id``, ``latest_at`` and
    ``agents``."""
    rest: Mapping[str, int] | None = None
    """The ``groups`` that are not listed, and the ``count`` of their runs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Worker(Record):
    """A worker process. Fields from ``host`` on are for administrators of the server."""

    worker_id: str
    state: str
    """alive, draining or lost."""
    slots: int = 0
    busy: int = 0
    pool: str = ""
    started_at: str = ""
    seen_at: str = ""
    seen_s: float = 0.0
    """Seconds since its last sign of life."""
    host: str | None = None
    pid: int | None = None
    queues: Sequence[str] = ()
    version: str | None = None
    cpu_share: float | None = None
    memory_share: float | None = None
    missing_keys: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Variables of models' keys that are not set in it, with the agents that need them."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Payloads that were dropped, by the observer that was too slow for them."""
    abandoned: Mapping[str, int] = field(default_factory=dict)
    """Calls that it gave up and that have not ended, by tool."""
    mcp_servers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """How each MCP server is in it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Queue(Record):
    """A queue of runs."""

    queue: str
    queued: int
    oldest_s: float | None = None
    """Seconds since the oldest run in it was accepted."""
    tenants: Mapping[str, int] = field(default_factory=dict)
    owners: Mapping[str, int] = field(default_factory=dict)
    """Whose runs wait: by tenant for administrators of the server, by owner for others."""
    workers: int = 0
    """Living workers that serve it."""
    slots: int = 0
    busy: int = 0
    worker_ids: Sequence[str] = ()
    detail: str | None = None
    """Where no worker serves it: what to do."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DoctorReport(Record):
    """What the server's checks say."""

    state: str
    """ok, warn or fail: the worst of the findings'."""
    findings: Sequence[Mapping[str, Any]] = ()
    """Each with ``check``, ``state``, ``sentence``, and ``remedy`` where a command helps."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Observer(Record):
    """An observer that tails the log."""

    name: str
    class_path: str
    delivery: str
    state: str
    """running, paused or stopped."""
    selection: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Which events it takes; empty: all."""
    threads: Sequence[Mapping[str, Any]] = ()
    """Which threads feed it: ``host``, ``pid`` and ``version`` of their processes."""
    position: int = 0
    behind: int = 0
    """Positions to the end of the log."""
    behind_s: float = 0.0
    delivered: int = 0
    dropped: int = 0
    retrying: int = 0
    dead: int = 0
    """Deliveries that were given up."""
    is_late: bool = False
    """Whether a person should look at it."""
    letters: Sequence[Mapping[str, Any]] = ()
    """Of one that was named: the deliveries that failed."""
