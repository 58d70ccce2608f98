"""The states of a run and the reasons for them: closed sets, stable on the wire. Sentences go into ``detail``."""

from __future__ import annotations

from enum import StrEnum


class RunStatus(StrEnum):
    """The values of a run's column ``status``."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    DEAD = "dead"


class Reason(StrEnum):
    """The reason for a run's state. A failed or dead run has the code of its error instead (docs/errors.md)."""

    ANSWERED = "answered"
    """queued: a person answered its last open question."""
    APPROVAL = "approval"
    """waiting: a person is asked."""
    CODE_VERSION = "code_version"
    """waiting: for a worker with compatible code; queued: one came."""
    DRAIN = "drain"
    """queued: its worker ends."""
    WORKER_LOST = "worker_lost"
    """queued: its worker's lease expired, or its process ended."""
    STOPPED = "stopped"
    """cancelled: a client asked it to stop."""
    MAX_ITERATIONS = "max_iterations"
    """succeeded: it used up its rounds with tools, and answered with what it had."""


CODE = "code"
"""The kind of the timer that ends a run for which no compatible worker came."""
