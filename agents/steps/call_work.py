"""The work of one tool call: its tool is called, or its task sent and awaited, until there is an outcome."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from agents.context import RunContext
from agents.delegation.agent_tool import MESSAGE
from agents.delegation.child_work import ChildWork
from agents.errors import ToolTimeout
from agents.steps.call_record import CallDecision, CallOutcome, CallRecord
from agents.steps.handover import PlannedHandover, StartableAgents
from agents.tools.call_context import CallReports, ToolContext
from agents.tools.execution.executor import call_tool, check_call
from agents.tools.isolation.call_folder import CallSandbox
from agents.tools.requests import CallAsks, TaskCall, TaskOutcome
from agents.tools.results import chars_of, in_thread_if_large, validate_output
from agents.tools.tool import Tool
from bus.journal.errors import StaleOwner
from bus.journal.owner import Commit, OpenStep, TaskWait
from bus.payloads import Outcome, Payload
from config.definitions.secrets import required_secret
from config.effects import Effect, Recovery
from config.errors import CallboardError, ModelVisible, Retryable, ToolCutOff, ToolFailed
from config.failpoints import failpoint

log = logging.getLogger(__name__)

NO_EFFECT = "It did not take effect: the other side was asked and knows nothing of this call."
NOT_YET = "The other side was asked and knows nothing of this call so far, but it may still be under way."
SEND_S = 15.0
"""Seconds that sending a task may take."""


class CallWork:
    """What one owner does of a call that may be made, and what came of it; a tool's error is an outcome."""

    def __init__(self, context: RunContext, record: CallRecord, timeout_s: float) -> None:
        self._context, self._record, self._timeout_s = context, record, timeout_s
        task = record.tool.task if record.tool is not None else None
        self.task = TaskWork(task, record.key, timeout_s, record.prior) if task is not None else None
        """The task that the call begins, where another system does its work."""
        tool, ids = record.tool, (record.id, record.call.id)
        is_child = tool is not None and tool.child is not None
        self.child = ChildWork(context, tool, *ids, record.prior) if tool is not None and is_child else None
        """The child run that the call is delegated to."""
        self.is_pending = False
        """Whether its task or its child run is under way, so that the run can wait for it without a worker."""
        self._begun_s: float | None = None
        self.asks: CallAsks | None = None
        """What its tool asked a person instead of returning: with the answer it is called again."""
        self._files: CallSandbox | None = None
        self._agents: StartableAgents | None = None
        self.spans: list[Mapping[str, Any]] = []
        """The HTTP requests, statements and file operations of the call."""
        self.end: CallOutcome | None = None
        """How the call ended; None while there is nothing to commit."""

    @property
    def is_begun(self) -> bool:
        """Whether the tool may have been called by this owner."""
        return self._begun_s is not None

    @property
    def handover(self) -> PlannedHandover | None:
        """The hand-over that the call has asked for; None where it asked for none, or has failed."""
        is_done = self.end is not None and self.end.outcome == "done"
        return self._agents.planned if self._agents is not None and is_done else None

    # --- the call

    async def call(self, decision: CallDecision, repeats: int = 1) -> None:
        """Call the tool, or begin its task, with the arguments that were decided, and set the outcome.

        ``repeats``: how often it is called again where it gives no reply and its effect allows that.
        """
        await self._context.require_go()
        if self.child is not None:
            self._note_begin()
            await self._begin_child(self.child, decision)
            return
        if self.task is not None:
            self._note_begin()
            await self._start_task(self.task, decision)
            return
        tool = self._tool
        try:
            with (
                self._context.within(2 * self._timeout_s),
                self._context.keeping_spans(self.spans.extend),
            ):  # it may have to wait for a thread
                failpoint("tool")
                for name, reference in tool.secrets.items():  # before the tool does anything
                    required_secret(name, reference)
                async with self._reports() as reports:
                    context = replace(self._tool_context(decision), reports=reports)
                    result = await call_tool(tool, decision.arguments, context, self._timeout_s, self._note_begin)
                failpoint("tool-after")
            await self._store_result(result)
        except CallAsks as asks:
            self.asks, self._begun_s = asks, None
        except (ToolTimeout, ToolCutOff) as error:
            await self._without_reply(error, decision, repeats)
        except ModelVisible as error:
            self.set_outcome("failed", f"Error: {error}", error)

    @property
    def _tool(self) -> Tool:
        assert self._record.tool is not None
        return self._record.tool

    def _note_begin(self) -> None:
        self._begun_s = time.monotonic()

    async def _without_reply(self, error: ModelVisible, decision: CallDecision, repeats: int) -> None:
        """Set the outcome of a call without a reply, which may have taken effect, by its effect's policy."""
        recovery = self._record.effect.policy.when_no_reply
        if recovery is Recovery.FAIL:
            self.set_outcome("failed", f"Error: {error}", error)
        elif recovery is Recovery.CHECK:
            if await self.took_no_effect(decision):
                if isinstance(error, ToolTimeout):  # its thread cannot be ended, and may still run
                    self.set_outcome("unknown", NOT_YET)
                else:
                    self.set_outcome("failed", NO_EFFECT, error)
        elif recovery is Recovery.REPEAT and repeats:
            await self.call(decision, repeats - 1)  # with the same key, so that the other side does it once
        else:
            self.set_outcome("unknown", str(error))

    async def took_no_effect(self, decision: CallDecision) -> bool:
        """Return whether the tool's ``check`` knows nothing of the call; set the outcome where it does, or fails."""
        try:
            with self._context.within(2 * self._timeout_s):
                result = await check_call(self._tool, self._tool_context(decision), self._timeout_s)
        except ModelVisible as error:
            self.set_outcome("unknown", f"Whether it took effect could not be found out: {error}")
            return False
        if result is not None:
            await self._store_result(result)
        return result is None

    def _reports(self) -> CallReports:
        record, guard = self._record, self._context.guardrails.text
        return CallReports(record.call.id, record.call.name, record.id, guard, self._save_reports)

    async def _save_reports(self, events: Sequence[Payload]) -> None:
        """Add what the call reports to the run's log; the call does not fail for it."""
        try:
            await self._context.save(Commit(events=events))
        except StaleOwner:  # the call is about to be cancelled
            return
        except CallboardError as error:
            log.info("the reports of a call were not written: %s", error)

    def _tool_context(self, decision: CallDecision) -> ToolContext:
        context, lease, tool, answer = self._context, self._context.lease, self._tool, self._record.answer
        if self._files is None:
            self._files = CallSandbox(context.sandbox, context.labels | self._record.labels(decision))
        return ToolContext(
            run_id=lease.run_id,
            thread_id=lease.thread_id,
            call_id=self._record.call.id,
            idempotency_key=self._record.key,
            tenant=lease.tenant,
            principal=lease.principal,
            golden=context.golden,
            security=context.security,
            privileged=context.privileged,
            files=self._files,
            quota=context.quota,
            timeout_s=self._timeout_s,
            hosts=tool.hosts,
            secrets=tool.secrets,
            given=answer.given,
            state=answer.state,
            sample=context.sample,
            find_agents=self._find_agents,
        )

    def _find_agents(self) -> StartableAgents:
        if self._agents is None:
            self._agents = StartableAgents(self._context, self._tool.name, may_hand_over=self._tool.hands_over)
        return self._agents

    # --- its child run

    async def _begin_child(self, child: ChildWork, decision: CallDecision) -> None:
        try:
            failpoint("tool")
            await child.begin(decision.arguments[MESSAGE], _own_limit_s(self._tool, decision))
            failpoint("tool-after")
        except ModelVisible as error:
            self.set_outcome("failed", f"Error: {error}", error)
            return
        self.is_pending = True

    async def resume_child(self, child: ChildWork, decision: CallDecision) -> None:
        """Continue with an earlier owner's child; it is begun where there is none, since it is committed or not."""
        if not child.is_over and child.run is None:
            await self.call(decision)
            return
        if not child.is_over or child.is_held:
            self.is_pending = True
            return
        error = child.failure
        if error is None and child.run is not None:
            await self._store_result(child.run.output)
        else:
            self.set_outcome("failed", f"Error: {error}", error)
        assert self.end is not None
        labels = child.run.labels if child.run is not None else frozenset()
        self.end = replace(self.end, labels=self.end.labels | labels, notes=[*self.end.notes, *child.notes])

    # --- its task

    async def _start_task(self, task: TaskWork, decision: CallDecision) -> None:
        """Send the call's task, and wait a moment for its end."""
        try:
            with self._context.within(2 * SEND_S):
                failpoint("tool")
                await task.send(decision.arguments, await self._context.wall_clock_ms())
                failpoint("tool-after")
        except ModelVisible as error:
            self.set_outcome("failed", f"Error: {error}", error)
            return
        await self._poll_task(task)

    async def resume_task(self, task: TaskWork, decision: CallDecision) -> None:
        """Continue with an earlier owner's task; it is sent again only where it may not have been, and that is safe."""
        may_repeat = self._record.effect.policy.when_lost is Recovery.REPEAT
        if may_repeat and task.left_s > 0 and not await task.was_sent():
            await self.call(decision)
        else:
            task.is_sent = True
            await self._poll_task(task)

    async def _poll_task(self, task: TaskWork) -> None:
        """Set the call's outcome where its task has ended or its time is over; else it is pending."""
        with self._context.within(2 * IN_PLACE_S):
            ended = await task.outcome(self._record.effect)
        if ended is None:
            self.is_pending = True
        elif ended.outcome == "done":
            await self._store_result(ended.result)
        elif ended.outcome == "failed":
            error = ToolFailed(str(ended.result))
            self.set_outcome("failed", f"Error: {error}", error)
        else:
            self.set_outcome("unknown", ended.result)

    # --- its outcome

    async def _store_result(self, result: Any) -> None:
        """Set the outcome of a call that was made: its result, validated and redacted, or why that is kept back."""
        try:
            chars, guard = chars_of(result), self._context.guardrails.output
            await in_thread_if_large(chars, validate_output, self._tool, result)
            self.set_outcome("done", await in_thread_if_large(chars, guard, self._tool.name, result))
        except ModelVisible as error:
            self.set_outcome("failed", f"The call was made, and its result is kept back: {error}", error)

    def set_outcome(self, outcome: Outcome, result: Any, error: ModelVisible | None = None) -> None:
        """Set the outcome; where it is not known what the call has read, its text is kept back."""
        before, guardrails = self.end, self._context.guardrails
        labels = before.labels if before is not None else frozenset()
        try:
            labels |= self._files.labels_read() if self._files is not None else frozenset()
        except ModelVisible as unread:
            outcome, error = "failed" if outcome == "done" else outcome, unread
            result = f"What the call returned is kept back: {unread}"
        if outcome != "done" and isinstance(result, str):  # may repeat what the other side said
            result = guardrails.text(result)
        if error is not None:  # its text is the error of a run of kind ``tool``
            error.args = (guardrails.text(str(error)),)
        took_ms = round((time.monotonic() - self._begun_s) * 1000) if self._begun_s is not None else None
        notes = before.notes if before is not None else ()
        self.end = CallOutcome(
            outcome=outcome, result=result, error=error, duration_ms=took_ms, labels=labels, notes=notes
        )


def _own_limit_s(tool: Tool, decision: CallDecision) -> float | None:
    """Return the time limit that the agent's file or the policy sets for a child; the usual one of tools is not its."""
    judged = decision.policy_decision
    limits = [tool.timeout_s, judged.timeout_s if judged is not None else None]
    return min((limit for limit in limits if limit is not None), default=None)


# --- the task that a call began in another system


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
