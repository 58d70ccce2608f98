"""The work of one tool call: its tool is called, or its task sent and awaited, until there is an outcome."""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from agents.context import RunContext
from agents.delegation.child_work import ChildWork
from agents.errors import ToolTimeout
from agents.models.failures import retry_delay_s
from agents.steps.call_record import CallDecision, CallOutcome, CallRecord
from agents.steps.handover import PlannedHandover, StartableAgents
from agents.steps.task_work import IN_PLACE_S, TaskWork
from agents.tools.call_context import CallReports, ToolContext
from agents.tools.execution.executor import call_tool, check_call, is_retryable, is_without_answer
from agents.tools.isolation.call_folder import CallSandbox
from agents.tools.requests import CallAsks
from agents.tools.results import chars_of, in_thread_if_large, validate_output
from agents.tools.tool import Tool
from bus.journal.errors import StaleOwner
from bus.journal.owner import Commit, RecordedOutcome
from bus.payloads import ErrorPayload, Outcome, Payload
from config.definitions.secrets import required_secret
from config.effects import Recovery
from config.errors import CallboardError, ModelVisible, ToolCutOff, ToolFailed
from config.failpoints import failpoint
from config.tracing import in_span, span_id_of

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
        self._over_s = math.inf
        self._is_extended = self._was_silent = False  # whether it had its time twice; whether an attempt got no reply
        self._retries = 0
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

    async def call(self, decision: CallDecision) -> None:
        """Call the tool, or begin its task, with the arguments that were decided, and set the outcome.

        A call that failed is made again under its key, after a pause, where its effect and its time allow that.
        """
        with in_span(span_id_of(self._record.id)):  # what is asked in turn names it as its parent
            await self._call(decision)

    async def _call(self, decision: CallDecision) -> None:
        await self._context.require_go()
        if self.child is not None:
            self._note_begin()
            await self._begin_child(self.child, decision)
            return
        if self.task is not None:
            self._note_begin()
            await self._start_task(self.task, decision)
            return
        error = await self._attempt(decision)
        while error is not None and await self._is_repeated(error, decision):
            error = await self._attempt(decision)

    async def _attempt(self, decision: CallDecision) -> ModelVisible | None:
        """Make the call once; return the error with which it failed, and set the outcome where it did not fail."""
        await self._context.require_go()
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
                    result = await call_tool(tool, decision.arguments, context, self._left_s, self._note_begin)
                failpoint("tool-after")
            await self._store_result(result)
        except CallAsks as asks:
            self.asks, self._begun_s = asks, None
        except ModelVisible as error:
            return error
        return None

    @property
    def _tool(self) -> Tool:
        assert self._record.tool is not None
        return self._record.tool

    def _note_begin(self) -> None:
        if self._begun_s is None:
            self._begun_s = time.monotonic()
            self._over_s = self._begun_s + self._timeout_s

    @property
    def _left_s(self) -> float:
        """Seconds that the next attempt may take: all of them together have the call's time."""
        return self._timeout_s if self._begun_s is None else max(0.001, self._over_s - time.monotonic())

    # --- its further attempts

    async def _is_repeated(self, error: ModelVisible, decision: CallDecision) -> bool:
        """Return whether the call is made again, after the pause; set the outcome of the call where it is not."""
        is_silent = isinstance(error, (ToolTimeout, ToolCutOff))
        self._was_silent |= is_silent
        pause_s = self._pause_s(error)
        if self._record.effect.policy.needs_check and (is_silent or pause_s is not None):
            if not await self.took_no_effect(decision):
                return False
            if isinstance(error, ToolTimeout):  # its thread cannot be ended, and may still run
                self.set_outcome("unknown", NOT_YET)
                return False
        if pause_s is None:
            self._set_failure(error)
            return False
        await self._pause(error, pause_s)
        return True

    def _pause_s(self, error: ModelVisible) -> float | None:
        """Return the seconds until the call is made again after an error; None where it is not."""
        policy, first = self._record.effect.policy, 1 if self._record.is_under_way else self._record.attempt
        tries = self._record.attempt + self._retries - first + 1
        if not policy.may_repeat or not is_retryable(error) or tries > self._tool.retries:
            return None
        pause_s = retry_delay_s(tries, error, random.random)
        if isinstance(error, ToolTimeout) and policy.when_no_reply is Recovery.REPEAT and not self._is_extended:
            self._is_extended, self._over_s = True, time.monotonic() + pause_s + self._timeout_s
        return pause_s if time.monotonic() + pause_s < self._over_s else None

    async def _pause(self, error: ModelVisible, pause_s: float) -> None:
        """Commit that the attempt failed, wait, and commit that the next one begins."""
        record = self._record
        problem = (
            f"The call of {record.call.name} failed and is made again: {self._context.guardrails.text(str(error))}"
        )
        failed = ErrorPayload(
            code=error.code,
            message=problem,
            retryable=True,
            attempt=record.attempt + self._retries,
            retry_in_ms=int(pause_s * 1000),
            call_id=record.call.id,
        )
        await self._context.save(Commit(events=[failed]))
        await asyncio.sleep(pause_s)
        self._retries += 1
        await self._context.save(Commit(attempts={record.id: record.attempt + self._retries}))

    def _set_failure(self, error: ModelVisible) -> None:
        """Set the outcome of a call whose last attempt failed; it is unknown where an attempt may have taken effect."""
        recovery = self._record.effect.policy.when_no_reply
        if recovery is Recovery.CHECK and isinstance(error, ToolCutOff):
            self.set_outcome("failed", NO_EFFECT, error)
        elif recovery in (Recovery.REPEAT, Recovery.LEAVE) and self._was_silent and is_without_answer(error):
            self.set_outcome("unknown", str(error))
        else:
            self.set_outcome("failed", f"Error: {error}", error)

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
        is_approved, limit_s = self._record.is_by_approval(decision), _own_limit_s(self._tool, decision)
        try:
            if is_approved and not self._record.is_of_approved_tool:
                raise child.changed
            failpoint("tool")
            await child.begin(decision.arguments, limit_s, is_approved=is_approved)
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

    def take(self, recorded: RecordedOutcome) -> None:
        """Set the outcome that an earlier run has recorded, as the guardrails let it pass now."""
        outcome, result = cast(Outcome, recorded.outcome), recorded.result
        try:
            result = self._context.guardrails.output(self._tool.name, result) if outcome == "done" else result
        except ModelVisible as error:
            self.set_outcome("failed", f"The recorded result is kept back: {error}", error)
            return
        if outcome == "unknown":
            result = f"The run {recorded.run_id} made this call, and it is not known whether it took effect."
        failure = ToolFailed(str(result)) if outcome == "failed" else None
        self.set_outcome(outcome, result, failure)
        assert self.end is not None
        self.end = replace(self.end, labels=self.end.labels | recorded.labels)

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
            outcome=outcome,
            result=result,
            error=error,
            duration_ms=took_ms,
            retries=self._retries,
            labels=labels,
            notes=notes,
        )


def _own_limit_s(tool: Tool, decision: CallDecision) -> float | None:
    """Return the time limit that the agent's file or the policy sets for a child; the usual one of tools is not its."""
    judged = decision.policy_decision
    limits = [tool.timeout_s, judged.timeout_s if judged is not None else None]
    return min((limit for limit in limits if limit is not None), default=None)
