"""Celery tasks of other applications as tools: ``celery:<task>`` is built from what the application's file says of it.

How they are sent and read is in ``bus/celery_tasks``.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self

from agents.tools.call_context import current_call
from agents.tools.requests import TaskOutcome
from agents.tools.results import to_result
from agents.tools.tool import Tool
from bus.celery_tasks.application import (
    ApplicationAddress,
    Results,
    address_of,
    read_applications,
    results_in,
    sender_to,
)
from bus.celery_tasks.sender import Routing
from bus.celery_tasks.state import BEFORE_ITS_BEGINNING, TaskState
from config.clock import epoch_ms
from config.definitions.celery_tasks import PREFIX, CeleryApplication, CeleryTask
from config.definitions.errors import DefinitionInvalid, DefinitionUnreadable, ToolUnknown
from config.effects import CapabilityKind, Effect, Recovery
from config.errors import ToolCutOff, ToolFailed
from config.redaction import redact
from config.settings import Settings
from config.text.names import did_you_mean

DEFAULT_QUEUE = "celery"
EXPIRES_S = 60.0
"""Seconds until a message expires whose result no call waits for, unless the file says otherwise."""
_NAME = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, kw_only=True)
class CeleryCall:
    """How one task is sent, and how its results come back: a ``TaskCall``."""

    application: str
    routing: Routing
    place: ApplicationAddress
    tracks_starts: bool
    result_expires_s: float
    """Seconds that the result backend keeps an entry; 0: for ever."""

    @property
    def task(self) -> str:
        """The task's name in Celery."""
        return self.routing.task

    async def send(self, task_id: str, arguments: Mapping[str, Any], expires_ms: int) -> None:
        """Return when the broker has the task's message."""
        await sender_to(self.place).send(self.routing, task_id, arguments, expires_ms)

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
        """Return what became of a task; None while it may still end."""
        state = (await results_in(self.place).states([task_id]))[task_id]
        begun = has_begun if has_begun or not is_over or await self._has_kept(backend, age_s) else None
        tracks_starts = self.tracks_starts
        return outcome_of(state, self.task, effect, is_over=is_over, tracks_starts=tracks_starts, has_begun=begun)

    async def incarnation(self) -> str | None:
        """Return the result backend's incarnation, where it decides about a task's outcome."""
        return await results_in(self.place).incarnation() if self.tracks_starts else None

    async def _has_kept(self, backend: str | None, age_s: float) -> bool:
        """Return whether the backend has kept its records since then; to be asked after the task's state is read.

        Where starts are not recorded that decides nothing.
        """
        if not self.tracks_starts:
            return True
        is_kept = not self.result_expires_s or age_s < self.result_expires_s
        return is_kept and backend is not None and await self.incarnation() == backend

    async def is_known(self, task_id: str) -> bool:
        """Return whether the backend has something about a task."""
        state = (await results_in(self.place).states([task_id]))[task_id]
        return state.name not in BEFORE_ITS_BEGINNING

    async def wait(self, task_id: str, seconds: float) -> None:
        """Return when the task has ended, or after ``seconds``."""
        results = results_in(self.place)
        async with Patience(results, task_id, seconds) as patience:
            while not (await results.states([task_id]))[task_id].has_ended:
                if not await patience.pause():
                    return


def celery_tool(path: str, settings: Settings) -> Tool:
    """Return the tool of ``celery:<task>``.

    Raises:
        DefinitionUnreadable: the file that may name it cannot be read now.
        ToolUnknown: no application's file names the task, or two do, or it cannot be called; says what to write.
    """
    name = path.removeprefix(PREFIX)
    applications, broken = read_applications(settings.celery_tasks_folders)
    having = [application for application in applications if name in application.tasks]
    if len(having) != 1:
        unreadable = next((error for error in broken if isinstance(error, DefinitionUnreadable)), None)
        if unreadable is not None and not having:  # the task may be in that file
            raise unreadable
        raise ToolUnknown(_not_found(name, having, applications, broken), name=path)
    try:
        return _tool(having[0], name, having[0].tasks[name], settings)
    except DefinitionInvalid as error:
        raise ToolUnknown(f"tool '{path[:200]}' cannot be used: {error}", name=path) from error


def _not_found(
    name: str, having: list[CeleryApplication], all_: list[CeleryApplication], broken: list[DefinitionInvalid]
) -> str:
    if having:
        files = " and ".join(application.file for application in having)
        return f"the Celery task '{name[:120]}' is named in {files}; keep one of them."
    tasks = sorted({task for application in all_ for task in application.tasks})
    hint = f" {broken[0]}" if broken else did_you_mean(name, tasks)
    return (
        f"the Celery task '{name[:120]}' is in no file of config/celery_tasks.{hint} Name it under `tasks:` of its "
        "application's file, or publish it (docs/celery-tasks.md)."
    )


def _tool(application: CeleryApplication, name: str, task: CeleryTask, settings: Settings) -> Tool:
    address = address_of(application, settings)
    field = f"tasks.{name}"
    if task.input_schema is None:
        problem = "has no schema; write `schema:` with its keyword arguments, or let the application publish it."
        raise DefinitionInvalid(application.file, None, field, problem)
    if not task.description:
        problem = "has no description; write `description:`, the model reads it."
        raise DefinitionInvalid(application.file, None, field, problem)
    if task.waits and address.results is None:
        problem = "its result cannot be read; write the application's `result_backend`, or `waits: false` here."
        raise DefinitionInvalid(application.file, None, field, problem)
    routing = Routing(
        task=name,
        queue=task.queue or DEFAULT_QUEUE,
        exchange=task.exchange or "",
        routing_key=task.routing_key or "",
        priority=task.priority,
    )
    call = CeleryCall(
        application=application.id,
        routing=routing,
        place=address,
        tracks_starts=bool(application.tracks_starts),
        result_expires_s=application.result_expires_s,
    )
    return Tool(
        name=task.name or _NAME.sub("_", name.rpartition(".")[2])[:64],
        description=task.description,
        parameters=task.input_schema,
        output_schema=task.output_schema,
        timeout_s=task.timeout_s,
        confirm=task.confirm,
        roles=task.roles,
        classification=task.classification,
        labels=task.labels,
        kind=CapabilityKind.COMMANDER,
        **_behaviour(call, task),
    )


def _behaviour(call: CeleryCall, task: CeleryTask) -> dict[str, Any]:
    """Return the fields of a tool that depend on whether its calls wait for the result."""
    if not task.waits:
        sending = partial(_send_only, call, task.timeout_s or EXPIRES_S)
        return {"function": _named(sending), "effect": task.effect or Effect.UNSAFE}
    effect = task.effect or Effect.CHECKABLE
    return {
        "function": _named(partial(_send_and_wait, call, effect)),
        "effect": effect,
        "task": call,
        "check": partial(_check, call, effect),
    }


def _named(sending: Callable[..., Any]) -> Callable[..., Any]:
    async def call_task(**arguments: Any) -> Any:
        return await sending(arguments)

    return call_task


async def _send_only(call: CeleryCall, expires_s: float, arguments: Mapping[str, Any]) -> Any:
    """Send a task whose result no one reads."""
    task_id = current_call().idempotency_key
    await call.send(task_id, arguments, epoch_ms() + int(expires_s * 1000))
    return {"task_id": task_id, "status": "sent"}


async def _send_and_wait(call: CeleryCall, effect: Effect, arguments: Mapping[str, Any]) -> Any:
    """Send a task and wait for its result; for callers without a run that could wait."""
    task_id = current_call().idempotency_key
    await call.send(task_id, arguments, epoch_ms() + 86_400_000)
    while (ended := await call.outcome(task_id, effect, is_over=False)) is None:
        await call.wait(task_id, 60.0)
    return _result(ended)


async def _check(call: CeleryCall, effect: Effect, task_id: str) -> Any:
    """Return the result of a task; it is never known that a task had no effect, only that its time is over."""
    ended = await call.outcome(task_id, effect, is_over=False)
    if ended is None:
        raise ToolCutOff(f"{call.task} has not ended.")
    return _result(ended)


def _result(ended: TaskOutcome) -> Any:
    if ended.outcome == "done":
        return ended.result
    raise (ToolFailed if ended.outcome == "failed" else ToolCutOff)(str(ended.result))


# --- what became of a task


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
