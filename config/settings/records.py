"""The settings of what is kept, and for how long: logs, runs, threads."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr

from config.settings.sources import Part


class RecordSettings(Part):
    """Part of ``Settings``."""

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
