"""One tool call of a run, whichever caller asks for it: decided about, recorded, made, and its outcome committed."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agents.steps.consulted_call import LOST, ConsultedCall
from agents.steps.recorded_call import UNDER_WAY
from agents.steps.spanned import spanned
from agents.steps.task_work import IN_PLACE_S, TaskWork
from agents.tool_errors import CallRejected, ToolTimeout
from agents.tools.call_context import ToolContext
from agents.tools.execution.executor import call_tool, check_call
from agents.tools.execution.large_text import chars_of, in_thread_if_large
from agents.tools.isolation.call_sandbox import CallSandbox
from agents.tools.requests.questions import CallAsks
from agents.tools.requests.reports import CallReports
from agents.tools.results import validate_output
from bus.journal import Commit, StaleOwner
from bus.payloads import Payload
from config.definitions.secret_reference import required_secret
from config.effects import Recovery
from config.errors import CallboardError, ModelVisible, ToolCutOff, ToolFailed
from config.failpoints import failpoint

log = logging.getLogger(__name__)

NO_EFFECT = "It did not take effect: the other side was asked and knows nothing of this call."
NOT_YET = "The other side was asked and knows nothing of this call so far, but it may still be under way."
SEND_S = 15.0
"""Seconds that sending a task may take."""


class ToolStep(ConsultedCall):
    """One tool call, from its text to its result; every call of every tool is made here.

    Before the call: it is authorised, validated, judged by the policy and approved (``Preflight``), and its start is
    committed together with what was decided. After it: its result is validated and redacted, and committed.
    """

    async def run(self) -> None:
        """Make the call and keep its outcome; a tool's error is an outcome, not an exception.

        An earlier owner's open call is made again, checked or left unknown, by its effect's policy or a person's
        decision. A call that a person has to approve first is left as it is.
        """
        if self.approval_reason is not None:
            return
        prior = self._prior
        if self.work is not None and not self.is_settled and prior is not None and prior.status in UNDER_WAY:
            await self._resume_task(self.work)
            await self._report_to_engine()
        elif self.will_run:
            is_open = self._prior is not None and self._prior.status == "started"
            is_checked = is_open and self.effect.policy.when_lost is Recovery.CHECK
            if not is_checked or await self._took_no_effect():
                await self._call()
            await self._report_to_engine()
        elif not self.is_settled:
            if self._person_decision is not None and self._is_taken:
                self._set_outcome("done", self._person_decision.taken)
            elif self._person_decision is not None and self._is_rejected:
                self._set_outcome("refused", self._person_decision.refusal, CallRejected(self._person_decision.refusal))
            else:
                self._set_outcome("unknown", LOST)

    async def _call(self) -> None:
        assert self._tool is not None
        await self._context.require_go()
        if self.work is not None:
            self._note_begin()
            await self._start_task(self.work)
            return
        try:
            with (
                self._context.within(2 * self._timeout_s),
                spanned(self._context, self._keep_spans),
            ):  # it may have to wait for a thread
                failpoint("tool")
                for name, reference in self._tool.secrets.items():  # before the tool does anything
                    required_secret(name, reference)
                async with self._reports() as reports:
                    context = replace(self._tool_context(), reports=reports)
                    result = await call_tool(self._tool, self.arguments, context, self._timeout_s, self._note_begin)
                failpoint("tool-after")
            await self._store_result(result)
        except CallAsks as asked:
            self._asked, self.is_begun = asked, False
        except (ToolTimeout, ToolCutOff) as error:
            await self._without_reply(error)
        except ModelVisible as error:
            self._set_outcome("failed", f"Error: {error}", error)

    def _note_begin(self) -> None:
        self.is_begun, self._started_s = True, time.monotonic()

    def _keep_spans(self, spans: Sequence[Mapping[str, Any]]) -> None:
        self.spans = [*self.spans, *spans]

    def _reports(self) -> CallReports:
        return CallReports(self.call.id, self.call.name, self.id, self._context.guardrails.text, self._save_reports)

    async def _save_reports(self, events: Sequence[Payload]) -> None:
        """Add what the call reports to the run's log; the call does not fail for it."""
        try:
            await self._context.save(Commit(events=events))
        except StaleOwner:  # the call is about to be cancelled
            return
        except CallboardError as error:
            log.info("the reports of a call were not written: %s", error)

    async def _start_task(self, work: TaskWork) -> None:
        """Send the call's task, and wait a moment for its end."""
        try:
            with self._context.within(2 * SEND_S):
                failpoint("tool")
                await work.send(self.arguments, await self._context.wall_clock_ms())
                failpoint("tool-after")
        except ModelVisible as error:
            self._set_outcome("failed", f"Error: {error}", error)
            return
        await self._poll_task(work)

    async def _resume_task(self, work: TaskWork) -> None:
        """Continue with an earlier owner's task; it is sent again only where it may not have been, and that is safe."""
        if self.effect.policy.when_lost is Recovery.REPEAT and work.left_s > 0 and not await work.was_sent():
            await self._call()
        else:
            work.is_sent = True
            await self._poll_task(work)

    async def _poll_task(self, work: TaskWork) -> None:
        """Set the call's outcome where its task has ended or its time is over; else it is pending."""
        with self._context.within(2 * IN_PLACE_S):
            ended = await work.outcome(self.effect)
        if ended is None:
            self.is_pending = True
        elif ended.outcome == "done":
            await self._store_result(ended.result)
        elif ended.outcome == "failed":
            error = ToolFailed(str(ended.result))
            self._set_outcome("failed", f"Error: {error}", error)
        else:
            self._set_outcome("unknown", ended.result)

    async def _without_reply(self, error: ModelVisible) -> None:
        """Set the outcome of a call without a reply, which may have taken effect, by its effect's policy."""
        recovery = self.effect.policy.when_no_reply
        if recovery is Recovery.FAIL:
            self._set_outcome("failed", f"Error: {error}", error)
        elif recovery is Recovery.CHECK:
            if await self._took_no_effect():
                if isinstance(error, ToolTimeout):  # its thread cannot be ended, and may still run
                    self._set_outcome("unknown", NOT_YET)
                else:
                    self._set_outcome("failed", NO_EFFECT, error)
        elif recovery is Recovery.REPEAT and self._repeats:
            self._repeats -= 1
            await self._call()  # with the same key, so that the other side does it once
        else:
            self._set_outcome("unknown", str(error))

    async def _took_no_effect(self) -> bool:
        """Return whether the tool's ``check`` knows nothing of the call; set the outcome where it does, or fails."""
        assert self._tool is not None
        try:
            with self._context.within(2 * self._timeout_s):
                result = await check_call(self._tool, self._tool_context(), self._timeout_s)
        except ModelVisible as error:
            self._set_outcome("unknown", f"Whether it took effect could not be found out: {error}")
            return False
        if result is not None:
            await self._store_result(result)
        return result is None

    async def _store_result(self, result: Any) -> None:
        """Set the outcome of a call that was made: its result, validated and redacted, or why that is kept back."""
        assert self._tool is not None
        try:
            chars, guard = chars_of(result), self._context.guardrails.output
            await in_thread_if_large(chars, validate_output, self._tool, result)
            self._set_outcome("done", await in_thread_if_large(chars, guard, self._tool.name, result))
        except ModelVisible as error:
            self._set_outcome("failed", f"The call was made, and its result is kept back: {error}", error)

    def _tool_context(self) -> ToolContext:
        lease = self._context.lease
        if self._files is None:
            self._files = CallSandbox(self._context.sandbox, self._context.labels | self._own_labels)
        return ToolContext(
            run_id=lease.run_id,
            thread_id=lease.thread_id,
            call_id=self.call.id,
            idempotency_key=self.key,
            tenant=lease.tenant,
            principal=lease.principal,
            golden=self._context.golden,
            security=self._context.security,
            privileged=self._context.privileged,
            files=self._files,
            quota=self._context.quota,
            timeout_s=self._timeout_s,
            hosts=self._tool.hosts if self._tool is not None else None,
            secrets=self._tool.secrets if self._tool is not None else {},
            given=self._answer.given,
            state=self._answer.state,
            sample=self._context.sample,
        )
