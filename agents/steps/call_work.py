"""The work of one tool call: its tool is called, or its task sent and awaited, until there is an outcome."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agents.context import RunContext
from agents.steps.call_decision import CallDecision
from agents.steps.call_record import CallOutcome, CallRecord
from agents.steps.task_work import IN_PLACE_S, TaskWork
from agents.tool_errors import ToolTimeout
from agents.tools.call_context import ToolContext
from agents.tools.execution.executor import call_tool, check_call
from agents.tools.execution.large_text import chars_of, in_thread_if_large
from agents.tools.isolation.call_sandbox import CallSandbox
from agents.tools.requests.questions import CallAsks
from agents.tools.requests.reports import CallReports
from agents.tools.results import validate_output
from agents.tools.tool import Tool
from bus.journal.errors import StaleOwner
from bus.journal.owner import Commit
from bus.payloads import Outcome, Payload
from config.definitions.secrets import required_secret
from config.effects import Recovery
from config.errors import CallboardError, ModelVisible, ToolCutOff, ToolFailed
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
        self.is_pending = False
        """Whether its task is under way, so that the run can wait for it without a worker."""
        self._begun_s: float | None = None
        self.asks: CallAsks | None = None
        """What its tool asked a person instead of returning: with the answer it is called again."""
        self._files: CallSandbox | None = None
        self.spans: list[Mapping[str, Any]] = []
        """The HTTP requests, statements and file operations of the call."""
        self.end: CallOutcome | None = None
        """How the call ended; None while there is nothing to commit."""

    @property
    def is_begun(self) -> bool:
        """Whether the tool may have been called by this owner."""
        return self._begun_s is not None

    # --- the call

    async def call(self, decision: CallDecision, repeats: int = 1) -> None:
        """Call the tool, or begin its task, with the arguments that were decided, and set the outcome.

        ``repeats``: how often it is called again where it gives no reply and its effect allows that.
        """
        await self._context.require_go()
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
        )

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
