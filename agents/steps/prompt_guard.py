"""The prompt guard of a run: it checks the input beside the first model call, and holds its output back until then."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from agents.context import RunContext
from agents.errors import PROMPT_GUARD_FAILED
from agents.governance.guardrails.prompt_guard import (
    RESPONSE_FORMAT,
    GuardedAgent,
    GuardFunction,
    History,
    NoVerdict,
    ValidationResult,
    earlier_texts,
    guard_function,
    guard_messages,
    unanswered_texts,
    verdict_in,
    verdict_of,
)
from agents.models.auto import resolve_model
from agents.models.call import ModelCall, is_in_process
from agents.models.fallbacks import Models
from agents.models.lite import is_imported, litellm_module
from agents.prompt import input_and_earlier
from agents.steps.model_step import HeldOutput, ModelStep
from agents.steps.sample_step import SampleStep
from agents.steps.streaming import StreamedResponseWrapper
from agents.tools.call_context import ToolContext
from agents.tools.execution.executor import call_tool
from agents.tools.isolation.call_folder import CallSandbox
from agents.tools.requests import CallAsks
from agents.tools.tool import Tool
from bus.journal.errors import StaleOwner
from bus.journal.owner import Commit, HistoryItem, Progress, Reason, StepEnded, StepStarted, Totals, end_event
from bus.payloads import MessagePayload, Payload, ResponsePayload
from config.definitions.agent import AgentDefinition
from config.definitions.guardrails.prompt_guard import PromptGuardFields
from config.definitions.model_fields import Timeouts
from config.effects import Effect
from config.errors import CallboardError, ModelVisible
from config.ids import canonical_digest, new_id

KIND = "guard"
"""The kind of a function's check; a model's is a model call."""


class PromptGuard:
    """Checks what a user gives to one run. Each verdict is a step of the run, and what it costs is the run's."""

    def __init__(
        self,
        context: RunContext,
        definition: AgentDefinition,
        fields: PromptGuardFields,
        tools: Mapping[str, Tool],
        verdict: ValidationResult | None = None,
    ) -> None:
        """``verdict``: the one on the run's input that an earlier owner recorded."""
        self._context, self._definition, self._fields = context, definition, fields
        self._agent = GuardedAgent.of(definition, tools)
        self._function = guard_function(definition, context.settings)
        self._verdict = verdict

    async def ask(self, step: ModelStep) -> StreamedResponseWrapper | None:
        """Ask the model while the guard checks the run's input; return the answer, or None where the guard refuses,
        which ends the run.

        Nothing of the answer is shown before the guard has passed the input.

        Raises:
            PROMPT_GUARD_FAILED: the guard failed or was late.
            CallboardError: the model call failed.
        """
        step.held = HeldOutput(self._context.writer)
        answering, checking = asyncio.create_task(step.ask()), asyncio.create_task(self._check_input())
        try:
            await asyncio.wait((answering, checking), return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                answering.result()  # what it failed with is known before the guard's verdict
            self._verdict = await checking
            if self._verdict.validationResult:
                await step.held.show()
                return await answering
        finally:
            for task in (answering, checking):
                task.cancel()
            await asyncio.gather(answering, checking, return_exceptions=True)
        await self._refuse(step, self._verdict)
        return None

    async def _refuse(self, step: ModelStep, verdict: ValidationResult) -> None:
        """End the run with the answer to an input that was refused; the model's own is discarded."""
        reason = verdict.validationFailedReason
        fields: dict[str, Any] = {"content": reason, "validation": verdict.as_json()}
        item = HistoryItem(id=new_id("msg"), role="assistant", data=fields)
        ids = {"message_id": item.id, "step_id": step.id}
        self._context.writer.delta(ResponsePayload, {"content": reason, **ids})
        payload = MessagePayload(role="assistant", message_id=item.id, step_id=step.id, **fields)
        discarded, context = step.cut_off("cancelled"), self._context
        output = reason if self._definition.output_schema is None else verdict.as_json()
        total, why = context.spending.total, Reason.PROMPT_REFUSED
        end = end_event("succeeded", total, context.took, reason=why, output=output)
        change = replace(discarded, events=[*discarded.events, payload, end], history=[item])
        await context.inbox.end(change, is_final=True)

    async def _check_input(self) -> ValidationResult:
        checked, earlier = input_and_earlier(self._context.chat_history.items)
        return self._verdict or await self.check(unanswered_texts(checked), earlier_texts(earlier))

    async def check(self, texts: Sequence[str], history: History = ()) -> ValidationResult:
        """Return the guard's verdict on texts of the user, recorded as a step; a reason never is empty.

        It is for each text that comes to a run with a goal, also later ones: the caller holds back what follows from
        the text until this has passed it.

        Raises:
            PROMPT_GUARD_FAILED: the guard failed, or did not answer in time; the text has not passed.
        """
        try:
            if self._function is not None:
                return await self._call(self._function, texts, history)
            return await self._ask_model(texts, history)
        except StaleOwner:
            raise
        except TimeoutError as error:
            problem = f"did not answer within {self._fields.timeout_s:g} s (`timeout_s` of its `prompt_guard`)"
            raise self._failed(problem) from error
        except NoVerdict as error:
            raise self._failed(str(error)) from error
        except CallAsks as error:
            raise self._failed("asked a person, which only a tool may") from error
        except CallboardError as error:
            raise self._failed(f"failed: {str(error).rstrip('.')}") from error

    def _failed(self, problem: str) -> CallboardError:
        return PROMPT_GUARD_FAILED(agent=self._definition.id, problem=self._context.guardrails.text(problem))

    # --- a model

    async def _ask_model(self, texts: Sequence[str], history: History) -> ValidationResult:
        call = self._model_call(guard_messages(self._agent, texts, history))
        if not is_in_process(call.model) and not is_imported():
            await asyncio.to_thread(litellm_module)
        alone = self._definition.model_copy(update={"fallbacks": ()})  # a guard is the model that the file names
        step = GuardStep(self._context, call, Models(alone, call.model))
        notes: Sequence[Payload] = ()
        verdict: ValidationResult | None = None
        try:
            async with asyncio.timeout(self._fields.timeout_s):
                notes = await step.ask_engine()
                answer = await step.ask()
                verdict = self._worded(verdict_in(await step.report_to_engine(answer.text)))
            return verdict
        finally:
            self._context.spending.add(step.spent.plus(Totals(steps=1)))
            with _unless_stale(verdict):
                await self._context.save(step.judged(notes, verdict))

    def _model_call(self, messages: Sequence[Mapping[str, Any]]) -> ModelCall:
        definition, limit_s = self._definition, self._fields.timeout_s
        assert self._fields.model is not None, "a guard is a model or a function"
        model = resolve_model(self._fields.model, os.environ)
        is_same_provider = model.partition("/")[0] == self._context.lease.model.partition("/")[0]
        return ModelCall(
            model=model,
            messages=messages,
            response_format=RESPONSE_FORMAT,
            api_base=definition.api_base if is_same_provider else None,
            api_key_env=definition.api_key_env if is_same_provider else None,
            timeouts=Timeouts(connect_s=limit_s, first_token_s=limit_s, between_chunks_s=limit_s, total_s=limit_s),
        )

    # --- a function

    async def _call(self, function: GuardFunction, texts: Sequence[str], history: History) -> ValidationResult:
        limit_s, key = self._fields.timeout_s, new_id("key")
        work = partial(function, "\n\n".join(texts), self._agent, history)
        path = self._fields.function or ""
        tool = Tool(name=path, description="", parameters={}, function=work, effect=Effect.PURE)
        verdict: ValidationResult | None = None
        started = StepStarted(
            id=new_id("step"),
            kind=KIND,
            name=path,
            arguments_digest=canonical_digest(list(texts)),
            idempotency_key=key,
        )
        try:
            with self._context.within(2 * limit_s):  # it may have to wait for a thread
                value = await call_tool(tool, {}, self._tool_context(started.id, key), limit_s)
            verdict = self._worded(verdict_of(value))
            return verdict
        except ModelVisible as error:
            raise NoVerdict(f"failed: {str(error).rstrip('.')}") from error
        finally:
            self._context.spending.add(Totals(steps=1))
            with _unless_stale(verdict):
                ended = StepEnded(id=started.id, status=_status(verdict), result=_recorded(verdict))
                await self._context.save(Commit(recorded=[(started, ended)]))

    def _tool_context(self, step_id: str, key: str) -> ToolContext:
        context, lease = self._context, self._context.lease
        return ToolContext(
            run_id=lease.run_id,
            thread_id=lease.thread_id,
            call_id=step_id,
            idempotency_key=key,
            tenant=lease.tenant,
            principal=lease.principal,
            golden=context.golden,
            security=context.security,
            privileged=context.privileged,
            files=CallSandbox(context.sandbox, frozenset(context.labels)),
            quota=context.quota,
            timeout_s=self._fields.timeout_s,
        )

    def _worded(self, verdict: ValidationResult) -> ValidationResult:
        """Return a verdict whose reason may be shown, and is there where the text is refused."""
        if verdict.validationResult:
            return verdict
        reason = self._context.guardrails.text(verdict.validationFailedReason.strip())
        return replace(verdict, validationFailedReason=reason or f"That is not what {self._definition.name} is for.")


class GuardStep(SampleStep):
    """The model call of a guard: a step of kind ``model`` whose result is the verdict, without events of its own."""

    def started(self) -> StepStarted:
        """Return the journal's entry."""
        return self._started("model")

    def judged(self, notes: Sequence[Payload], verdict: ValidationResult | None) -> Commit:
        """Return the commit that records the step, with what it used."""
        ended = self._ended(_status(verdict), _recorded(verdict))
        return Commit(events=[*notes, *self._notes], recorded=[(self.started(), ended)])


def _unless_stale(verdict: ValidationResult | None) -> AbstractContextManager[None]:
    """Let a check without a verdict end although the run has another owner; nothing may follow from a verdict then."""
    return suppress(StaleOwner) if verdict is None else nullcontext()


def _status(verdict: ValidationResult | None) -> str:
    return "done" if verdict is not None else "failed"


def _recorded(verdict: ValidationResult | None) -> dict[str, Any] | None:
    return verdict.as_json() if verdict is not None else None


def guard_of(
    context: RunContext, definition: AgentDefinition, tools: Mapping[str, Tool], progress: Progress
) -> PromptGuard | None:
    """Return what checks the input of a run beside its agent's first answer; None where nothing does, or it has passed.

    An agent to which the run was handed over has its own guard check what the user wrote in this turn.
    """
    fields, recorded = definition.prompt_guard, progress.validation
    if fields is None or progress.rounds_of_agent or progress.repair is not None:
        return None
    verdict = verdict_of(recorded) if recorded is not None else None
    if verdict is not None and verdict.validationResult:
        return None
    return PromptGuard(context, definition, fields, tools, verdict)


def asking(
    context: RunContext, definition: AgentDefinition, tools: Mapping[str, Tool], progress: Progress
) -> Callable[[ModelStep], Awaitable[StreamedResponseWrapper | None]]:
    """Return what asks the model in each step: beside the guard, if there is one, in the first one and in each that
    follows a text by which a client steers the run.

    It returns the answer, or None where the guard has refused what the user wrote, which ends the run.
    """
    fields = definition.prompt_guard
    guards = [guard] if (guard := guard_of(context, definition, tools, progress)) is not None else []
    checked: set[str] = set()

    async def ask(step: ModelStep) -> StreamedResponseWrapper | None:
        newest = context.chat_history.items[-1] if context.chat_history.items else None
        is_steered = newest is not None and "control_id" in newest.data and newest.id not in checked
        if fields is not None and is_steered and not guards:
            guards.append(PromptGuard(context, definition, fields, tools))
        if newest is not None:
            checked.add(newest.id)
        return await (guards.pop().ask(step) if guards else step.ask())

    return ask
