"""The settings of the servers that a deployment uses, of its state folder, and of workers, their queues and runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from config.redis.url import REDIS_SCHEMES
from config.settings.sources import ROOT, Part

POOL_FLOOR = 6
"""Connections that a process needs at once: one writes, four read, and one is for what users wait for (a stop)."""


class ServerSettings(Part):
    """Part of ``Settings``."""

    redis_url: str | None = None
    """Redis of the hot log, and of Celery's queue unless ``broker_url`` is set. None: no Redis is used."""
    broker_url: str | None = None
    """Celery's broker; the default is the Redis URL."""
    database_url: str | None = None
    """SQLAlchemy URL; the default is SQLite in the state folder."""
    database_pool_size: int = Field(default=20, ge=1, le=500)
    """Connections a process keeps open to the database."""
    database_max_overflow: int = Field(default=10, ge=0, le=500)
    """Additional connections a process may open temporarily."""
    state_dir: Path = Path(".callboard")
    """Folder of the database, the socket, the logs and the sandbox."""
    deployment: str = Field(default="default", pattern=r"^[A-Za-z0-9_.-]{1,40}$")
    """Prefix of every Redis key, so that several deployments can share a server."""
    embedded: Literal["auto", "path", "wheel", "process"] = "auto"
    """Which Redis ``up`` starts without a URL: the first one found, the one on the PATH, the wheel's, or none."""
    trusted_network: bool = False
    """Whether the network to servers on other machines is private; the doctor then only warns of plain text."""

    @field_validator("redis_url", "broker_url", "database_url", mode="before")
    @classmethod
    def _empty_is_unset(cls, value: object) -> object:
        return value or None

    @field_validator("redis_url")
    @classmethod
    def _is_redis(cls, value: str | None) -> str | None:
        if value is not None and urlsplit(value).scheme not in REDIS_SCHEMES:
            raise ValueError("it has to begin with redis://, rediss:// or unix://, such as redis://localhost:6379/0")
        return value

    @field_validator("broker_url")
    @classmethod
    def _has_scheme(cls, value: str | None) -> str | None:
        if value is not None and "://" not in value:
            raise ValueError(
                "it has to begin with the broker's scheme, such as redis://localhost:6379/0 or amqp://host//"
            )
        return value

    @model_validator(mode="after")
    def _pool_is_large_enough(self) -> Self:
        pool = self.database_pool_size + self.database_max_overflow
        if pool < POOL_FLOOR:
            raise ValueError(
                f"CALLBOARD_DATABASE_POOL_SIZE ({self.database_pool_size}) and CALLBOARD_DATABASE_MAX_OVERFLOW "
                f"({self.database_max_overflow}) have to be at least {POOL_FLOOR} together, or heartbeats wait for "
                "readers and a healthy worker loses its runs"
            )
        return self

    @property
    def broker(self) -> str | None:
        """The URL of Celery's broker, or None: then no wake-up is published, and workers poll the database."""
        return self.broker_url or self.redis_url

    @property
    def state(self) -> Path:
        """The state folder, absolute."""
        return (ROOT / self.state_dir).resolve()

    @property
    def database(self) -> str:
        """The database's URL, with the default applied."""
        return self.database_url or f"sqlite:///{self.state / 'callboard.db'}"


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
    observe: str = Field(default="", pattern=r"^[\w.:, -]*$")
    """Observers that each worker process feeds from the log, ``,`` between them; empty: none."""
    metrics_port: int = Field(default=0, ge=0, le=65535)
    """TCP port on which the first worker process of a machine serves ``/metrics`` without a credential; 0: none."""
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

    @property
    def observed(self) -> list[str]:
        """The observers that each worker process feeds."""
        return [name.strip() for name in self.observe.split(",") if name.strip()]

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
    retain_for_observers_days: float = Field(default=30, ge=0)
    """Days that a run and its log are kept beyond these times for a reliable observer that has not had all of it; for a
    critical one without end."""
    retain_logs_days: float = Field(default=0, ge=0)
    """Days the logger observer's files are kept after their last line; 0 is until rotation deletes them."""
