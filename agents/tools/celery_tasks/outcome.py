"""What the state of a task means for the call that sent it, and how a call waits for it in place."""

from __future__ import annotations

import asyncio
import time
from types import TracebackType
from typing import Self

from agents.tools.requests.task_call import TaskOutcome
from agents.tools.results import to_result
from bus.celery_tasks.application import Results
from bus.celery_tasks.state import BEFORE_ITS_BEGINNING, TaskState
from config.effects import Effect, Recovery
from config.redaction import redact

LOST_WORK = ("WorkerLostError", "TimeLimitExceeded", "Terminated", "WorkerTerminate", "WorkerShutdown")
"""Failures that Celery itself records about a task that was ended in the middle: it may have had its effect."""
NEVER_BEGUN = ("revoked", "expired")
"""What Celery records of a task that was dropped before it began."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.02, 0.5
LOOK_S = 5.0
"""Seconds between two looks at a task whose changes arrive by themselves."""


def outcome_of(
    state: TaskState,
    task: str,
    effect: Effect,
    *,
    is_over: bool,
    tracks_starts: bool,
    has_begun: bool | None = False,
) -> TaskOutcome | None:
    """Return what became of a task by its state; None while it may still end.

    ``is_over``: its message has expired, so that no worker begins it any more. ``tracks_starts``: a worker that begins
    a task records that, so that ``PENDING`` means that none has. ``has_begun``: whether it was seen to have begun,
    which the backend may have lost since; None where it was not seen, and the backend may have lost it.
    """
    if state.unreadable is not None:
        return _lost(effect, f"{task} may have ended. {state.unreadable}")
    if state.name == "SUCCESS":
        return TaskOutcome(outcome="done", result=to_result(state.result))
    reason = redact(f"{state.error}: {state.message}".rstrip(": "))
    if state.name == "FAILURE" and state.error in LOST_WORK:
        return _lost(effect, f"{task} was ended in the middle: {reason}")
    if state.name == "FAILURE":
        return TaskOutcome(outcome="failed", result=reason)
    if state.name == "REVOKED" and state.message in NEVER_BEGUN:
        return TaskOutcome(outcome="failed", result=f"{task} was {state.message} before it began, so it was not done.")
    if state.name == "REVOKED":
        return _lost(effect, f"{task} was revoked while it was under way.")
    if not is_over:
        return None
    begun = has_begun or state.name not in BEFORE_ITS_BEGINNING
    return _given_up(task, effect, has_begun=begun or has_begun, tracks_starts=tracks_starts)


def _given_up(task: str, effect: Effect, *, has_begun: bool | None, tracks_starts: bool) -> TaskOutcome:
    """Return what becomes of a call whose time is over, and whose task has not ended."""
    if has_begun:
        return _lost(effect, f"{task} has begun and did not end in time; it was revoked.")
    if has_begun is None:
        return _lost(
            effect,
            f"{task} had no result in time, and whether a worker began it is not known: its result backend may have "
            "lost the record of that since the task was sent.",
        )
    if tracks_starts:
        note = f"no worker began {task} in time, and its message has expired, so it was not done."
        return TaskOutcome(outcome="failed", result=note)
    return _lost(effect, f"{task} had no result in time, and whether a worker began it is not recorded.")


def _lost(effect: Effect, problem: str) -> TaskOutcome:
    """Return the outcome of a call that may have had its effect: a failure only where a second call does no harm."""
    if effect.policy.when_no_reply is Recovery.FAIL:
        return TaskOutcome(outcome="failed", result=problem)
    return TaskOutcome(outcome="unknown", result=problem)


class Patience:
    """Pauses between two looks at a task: until a change of its state arrives, else ever longer ones."""

    def __init__(self, results: Results, task_id: str, seconds: float) -> None:
        self._results = results
        self._task_id = task_id
        self._ends_s = time.monotonic() + seconds
        self._changed = asyncio.Event()
        self._pause_s = FIRST_PAUSE_S
        self._is_subscribed = False

    async def __aenter__(self) -> Self:
        self._is_subscribed = await self._results.subscribe(self._task_id, self._changed.set)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._results.unsubscribe(self._task_id, self._changed.set)

    async def pause(self) -> bool:
        """Return after a pause whether to look again; False where the time is over."""
        left_s = self._ends_s - time.monotonic()
        if left_s <= 0:
            return False
        try:
            async with asyncio.timeout(min(left_s, LOOK_S if self._is_subscribed else self._pause_s)):
                await self._changed.wait()
        except TimeoutError:
            self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)
        self._changed.clear()
        return True
