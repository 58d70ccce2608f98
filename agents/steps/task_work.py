"""The task that a call began in another system: sent, awaited for a moment, and looked at again by each owner."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from agents.tools.requests import TaskCall, TaskOutcome
from bus.journal.owner import OpenStep, TaskWait
from config.effects import Effect, Recovery
from config.errors import CallboardError, Retryable, ToolCutOff

log = logging.getLogger(__name__)

IN_PLACE_S = 1.0
"""Seconds that a run keeps its slot for a task; a shorter one costs no release and no second claim."""
MARGIN_S = 1.0
"""Seconds beyond a task's time until it is given up, for clocks that differ."""
GIVE_UP_S = 300.0
"""Seconds beyond a task's time until a result backend that does not answer is asked no more."""


class TaskWork:
    """One call's task, from its message to its result; a later owner continues with what an earlier one began."""

    def __init__(self, call: TaskCall, key: str, timeout_s: float, prior: OpenStep | None) -> None:
        """``prior``: the step as an earlier owner left it."""
        self._call = call
        begun = prior.wait if prior is not None and prior.status in ("started", "waiting") else None
        self.is_new = begun is None
        """Whether this owner begins it, so that its wait has to be committed before."""
        left_ms = round(timeout_s * 1000)
        self.wait = begun or TaskWait(
            task_id=_task_id(key, prior),
            application=call.application,
            task=call.task,
            left_ms=left_ms,
            timeout_ms=left_ms,
        )
        self._over_s = time.monotonic() + self.wait.left_ms / 1000
        self.is_sent = prior is not None and prior.status == "waiting"
        """Whether the task's message is, or may be, in its queue."""

    @property
    def left_s(self) -> float:
        """Seconds until its time is over; below zero afterwards."""
        return self._over_s - time.monotonic()

    async def was_sent(self) -> bool:
        """Return whether the task is known to have been sent: by an owner that waited for it, or by its worker."""
        if not self.is_sent:
            with suppress(Retryable):
                self.is_sent = await self._call.is_known(self.wait.task_id)
        return self.is_sent

    async def send(self, arguments: Mapping[str, Any], now_ms: int) -> None:
        """Send it; where it is not known whether the message arrived, its time will tell.

        ``now_ms``: by the clock that its time is counted with, in ms since 1970.

        Raises:
            ModelVisible: it was not sent.
        """
        if self.is_new:  # else an earlier owner may have sent it to another incarnation
            with suppress(Retryable):
                self.wait = replace(self.wait, backend=await self._call.incarnation())
        try:
            await self._call.send(self.wait.task_id, arguments, now_ms + round(self.left_s * 1000))
        except ToolCutOff as error:
            log.warning("a task may not have been sent task_id=%s: %s", self.wait.task_id, error)
        self.is_sent = True

    async def outcome(self, effect: Effect) -> TaskOutcome | None:
        """Wait a moment for its end and return what became of it; None while it may still end."""
        is_over = self.left_s + MARGIN_S <= 0
        try:
            if not is_over:
                await self._call.wait(self.wait.task_id, IN_PLACE_S)
            return await self._call.outcome(
                self.wait.task_id,
                effect,
                is_over=is_over,
                has_begun=self.wait.has_begun,
                backend=self.wait.backend,
                age_s=self.wait.timeout_ms / 1000 - self.left_s,
            )
        except CallboardError as error:
            log.warning("the result of a task cannot be read yet task_id=%s: %s", self.wait.task_id, error)
            if self.left_s > -GIVE_UP_S:
                return None
            is_harmless = effect.policy.when_no_reply is Recovery.FAIL
            problem = f"The result of {self._call.task} cannot be read: {error}"
            return TaskOutcome(outcome="failed" if is_harmless else "unknown", result=problem)


def _task_id(key: str, prior: OpenStep | None) -> str:
    """Return the call's key, or another id where a person chose to make the call again: workers drop revoked ids."""
    return f"{key}.{prior.attempt + 1}" if prior is not None and prior.status == "unknown" else key
