"""The states of a run and the reasons for them: closed sets, stable on the wire. Sentences go into ``detail``.

``bus.journal.run_end`` builds the commit of an ``Ending``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from bus.payloads import EndStatus
    from config.errors import CallboardError


class RunStatus(StrEnum):
    """The state of a run."""

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
    PRINCIPAL_DISABLED = "principal_disabled"
    """waiting: its principal is disabled; queued: it is enabled again."""
    DRAIN = "drain"
    """queued: its worker ends."""
    HANDOVER = "handover"
    """queued: its agent handed it over to another one."""
    UPGRADED = "upgraded"
    """queued: it was moved to another version of its agent."""
    WORKER_LOST = "worker_lost"
    """queued: its worker's lease expired, or its process ended."""
    STOPPED = "stopped"
    """cancelled: a client asked it to stop."""
    TASK = "task"
    """waiting: for tasks of a Celery application; queued: they have ended, or their time is over."""
    CHILD = "child"
    """waiting: for child runs; queued: they have ended."""
    SIGNAL = "signal"
    """waiting: for a signal or a time of its workflow; queued: that came."""
    PAUSED = "paused"
    """waiting: a client paused it."""
    RESUMED = "resumed"
    """queued: a client resumed it."""
    PROMPT_REFUSED = "prompt_refused"
    """succeeded: the agent's prompt guard refused the input, and the answer says why."""
    MAX_ITERATIONS = "max_iterations"
    """succeeded: it used up its rounds with tools, and answered with what it had."""


WAKEABLE = (Reason.APPROVAL, Reason.CHILD, Reason.TASK, Reason.SIGNAL)
"""The reasons for which a workflow waits: whatever one of its branches waits for lets it continue."""
CODE = "code"
"""The kind of the timer that ends a run for which no compatible worker came."""
LIMIT = "limit"
"""The kind of the timer that stops a child run whose call has a time limit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ending:
    """How a run ends before its work is done."""

    status: EndStatus
    reason: str
    """A ``Reason``, or the error's code."""
    note: str
    """The sentence shown in the thread."""
    error: CallboardError | None = None

    @property
    def step_status(self) -> Literal["cancelled", "failed"]:
        """The status of an open model step, and of an open call that certainly had no effect."""
        return "cancelled" if self.status == "cancelled" else "failed"

    @classmethod
    def failed(cls, error: CallboardError, status: EndStatus = "failed") -> Ending:
        """Return the end of a run for an error; ``status`` is failed, or dead after its last crash."""
        return cls(status=status, reason=error.code, note=str(error), error=error)


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftAs:
    """The state in which a run is left, and why."""

    status: Literal["queued", "waiting"]
    reason: Reason


STOPPED = Ending(status="cancelled", reason=Reason.STOPPED, note="Stopped by the user.")
