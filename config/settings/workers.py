"""The settings of workers, their queues and the runs that they own, and of what is kept."""

from __future__ import annotations

import os
from typing import Literal, Self

from pydantic import Field, SecretStr, model_validator

from config.settings.sources import Part

QUEUE_NAME = r"[A-Za-z0-9_.-]{1,60}"
"""What a queue may be called."""
QUEUE_NAME_FORM = "a queue's name: 1 to 60 letters, digits, '_', '-' and '.'"


class WorkerSettings(Part):
    """Part of ``Settings``."""

    workers: int = Field(default_factory=lambda: os.cpu_count() or 1, ge=1, le=256)
    """Worker processes the supervisor keeps running."""
    slots: int = Field(default=200, ge=1, le=2000)
    """Runs that one worker process executes at once."""
    tool_threads: int = Field(default=64, ge=1, le=1000)
    """Plain functions of tools that one worker process calls at once; async ones need no thread."""
    cached_definitions: int = Field(default=1000, ge=1, le=100_000)
    """Definitions of agents whose built tools one process keeps."""
    queue: str = Field(default="runs", pattern=rf"^{QUEUE_NAME}$")
    """Name of Celery's queue; web and workers have to agree on it."""
    queues: str = Field(default="", pattern=rf"^(\s*{QUEUE_NAME}\s*(,\s*{QUEUE_NAME}\s*)*)?$")
    """Queues that a worker serves, ``,`` between them; empty: ``queue`` alone."""
    lease_s: float = Field(default=15.0, gt=0)
    """Seconds a worker owns a run after a heartbeat."""
    beat_s: float = Field(default=5.0, gt=0)
    """Seconds between two heartbeats."""
    reap_s: float = Field(default=5.0, gt=0)
    """Seconds between two searches for expired leases, due timers and unpublished wake-ups."""
    drain_s: float = Field(default=20.0, gt=0)
    """Seconds a draining worker gives its current steps."""
    approval_ttl_s: int = Field(default=7 * 24 * 3600, ge=1)
    """Seconds a run waits for an approval or for compatible code; then it fails."""
    hot_log_ttl_s: int = Field(default=3600, ge=1)
    """Seconds the hot log is kept after a run's end; later readers read SQL."""
    hot_log_max_bytes: int = Field(default=4 * 1024 * 1024, ge=16 * 1024)
    """Bytes of events a run may hold in Redis while it streams; older ones are in SQL. After its end 64 KiB stay."""

    @model_validator(mode="after")
    def _periods_agree(self) -> Self:
        if self.beat_s * 2 > self.lease_s:
            raise ValueError(
                f"CALLBOARD_BEAT_S ({self.beat_s:g}) has to be at most half of CALLBOARD_LEASE_S "
                f"({self.lease_s:g}), or a healthy worker loses its runs"
            )
        return self

    # --- what is kept, and for how long

    debug: bool = False
    """Show tracebacks, and log message bodies too."""
    log_format: Literal["text", "json"] = "text"
    """Format of log lines."""
    log_deltas: bool = False
    """Whether the logger observer also writes each delta."""
    audit_calls: bool = False
    """Whether each start of a run, and of each call of a model or a tool, is an entry of the audit log."""
    seal_keys: SecretStr | None = None
    """Keys of 32 bytes in base64, ``,`` between them, with which the originals of redacted texts and the logins at MCP
    servers are sealed: the first seals, each unseals; none: no original is kept, and no login is possible."""
    retain_threads_days: float = Field(default=0, ge=0)
    """Days an unused thread is kept, with everything in it; 0 is for ever."""
    retain_runs_days: float = Field(default=0, ge=0)
    """Days a run is kept after its end, and an internal event; the thread keeps the messages. 0 is for ever."""
    retain_events_days: float = Field(default=0, ge=0)
    """Days a run's log is kept after its end; the run stays, with its outcome. 0 is for ever."""
    retain_logs_days: float = Field(default=0, ge=0)
    """Days the logger observer's files are kept after their last line; 0 is until rotation deletes them."""
