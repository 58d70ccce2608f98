"""The seam for work that another system does: it is begun with one message, and its run waits without a worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from config.effects import Effect


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskOutcome:
    """What became of a task that has ended, or whose time is over."""

    outcome: Literal["done", "failed", "unknown"]
    result: Any
    """What it returned, as JSON data; otherwise a sentence for the model."""


class TaskCall(Protocol):
    """How one tool's calls are sent to the system that does the work, and how their results come back."""

    @property
    def application(self) -> str:
        """The id of the system's configuration, by which any worker finds its results again."""

    @property
    def task(self) -> str:
        """The name of the task, for people."""

    async def send(self, task_id: str, arguments: Mapping[str, Any], expires_ms: int) -> None:
        """Return when the task is in its queue, where it expires at ``expires_ms`` (since 1970).

        Raises:
            ToolCutOff: the message may have arrived, or not.
            ModelVisible: it was not sent.
        """

    async def outcome(
        self,
        task_id: str,
        effect: Effect,
        *,
        is_over: bool,
        has_begun: bool = False,
        backend: str | None = None,
        age_s: float = 0.0,
    ) -> TaskOutcome | None:
        """Return what became of a task; None while it may still end.

        ``is_over``: its time is over, so that a task that has not ended is given up. ``has_begun``: whether it was seen
        to have begun. ``backend``: the incarnation of the result backend before the task was sent, ``age_s`` ago.

        Raises:
            Retryable: the result backend does not answer; it is to be asked again.
        """

    async def incarnation(self) -> str | None:
        """Return what changes when results may have been lost; None where that is not known, or does not matter.

        Raises:
            Retryable: the result backend does not answer.
        """

    async def is_known(self, task_id: str) -> bool:
        """Return whether some worker has taken the task up: then it was sent.

        Raises:
            Retryable: the result backend does not answer.
        """

    async def wait(self, task_id: str, seconds: float) -> None:
        """Return when the task has ended, or after ``seconds``."""
