"""The agent: asks the model, runs the tools it calls, and asks again, until there is an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from agents.context import RunContext
from agents.model_step import Answer, ModelStep
from agents.models.call import ModelCall, Timeouts
from agents.models.chunk import Usage
from agents.output import parse_output, repair_request, response_format
from agents.prompt import LAST_CALL, Message, messages_for, offered
from agents.tool_step import ToolStep
from agents.tools.tool import Tool
from bus.journal.steps import StepEnded, StepStarted
from bus.journal.threads import HistoryItem
from bus.journal.writer import Commit
from bus.payloads import EndPayload, EndStatus, ErrorPayload, MessagePayload, Payload
from config.clock import epoch_ms
from config.definitions import AgentDefinition
from config.errors import CallboardError, OutputInvalid
from config.ids import new_id

CALLS_AT_ONCE = 16
"""Tool calls of one answer that run at the same time."""


class Agent:
    """One configured agent working on one run.

    The algorithm of ``run``:

    1. Build the chat input: system prompt, the thread's history, the tools on offer.
    2. Commit the model step as started; the first one together with the claim.
    3. Have LiteLLM open the provider's stream (``agents/models/open.py``).
    4. Wrap it (``StreamedResponseWrapper``): each chunk is a delta, numbered and told at once.
    5. Where the call fails in a way that may pass: withdraw what it streamed, say so, wait, ask again.
    6. Commit the whole message, its usage, and every tool call as started, in one transaction.
    7. No tool calls: check the answer against the output schema (one repair), and end.
    8. Run the calls at once; commit each result; the last one shares its commit with the next step 2.
    9. After ``max_iterations`` rounds ask a last time without tools, so that there is a usable answer.
    10. Commit the end: status, reason, output, usage, cost.

    A stop or a lost lease cancels the task at any point; ``finish_stopped`` then leaves a valid history.
    """

    def __init__(self, definition: AgentDefinition, tools: Mapping[str, Tool], context: RunContext) -> None:
        self._definition = definition
        self._tools = tools
        self._context = context
        self._usage: dict[str, int] = {}
        self._cost_usd: float | None = None
        self._steps = 0
        self._step: ModelStep | None = None
        self._is_whole = False  # whether the step's answer arrived completely, and was counted
        self._calls: list[ToolStep] = []
        self._calls_of = ""
        self._repair: list[Message] = []
        self._is_repaired = False

    def first_step(self) -> StepStarted:
        """Return what has to be committed before ``run``: the first model step, as started."""
        return self._begin(self._model_step(is_last=False)).started()

    async def run(self) -> None:
        """Work the run off, from its first step on, and end it.

        Raises:
            CallboardError: it failed; ``finish_failed`` writes that down.
            StaleOwner: somebody else owns the run now.
        """
        iteration, step = 1, self._step
        assert step is not None, "first_step() comes first"
        while True:
            answer = await step.ask()
            self._is_whole = True
            self._count(answer.usage, answer.cost_usd)
            is_last = iteration > self._definition.max_iterations
            if not answer.tool_calls or is_last:
                following = await self._conclude(step, answer, is_last)
            else:
                iteration += 1
                following = await self._use_tools(step, answer, iteration > self._definition.max_iterations)
            if following is None:
                return
            step = following

    # --- asking

    def _model_step(self, *, is_last: bool) -> ModelStep:
        definition, context = self._definition, self._context
        messages = messages_for(definition, context.chat_history) + self._repair
        if is_last:
            messages.append({"role": "system", "content": LAST_CALL})
        timeouts = definition.timeouts
        call = ModelCall(
            model=context.lease.model,
            messages=messages,
            tools=offered(self._tools) or None,
            tool_choice="none" if is_last and self._tools else None,
            params=definition.params,
            response_format=response_format(definition.output_schema) if definition.output_schema else None,
            api_base=definition.api_base,
            api_key_env=definition.api_key_env,
            timeouts=Timeouts(
                connect_s=timeouts.connect_s, first_token_s=timeouts.first_token_s,
                between_chunks_s=timeouts.between_chunks_s, total_s=timeouts.total_s,
            ),
        )  # fmt: skip
        return ModelStep(context, call)

    def _begin(self, step: ModelStep) -> ModelStep:
        """Take ``step`` as the one that is being worked on, also for a stop that comes while it is committed."""
        self._step, self._is_whole = step, False
        self._calls = []
        self._steps += 1
        return step

    def _count(self, usage: Usage | None, cost_usd: float | None) -> None:
        for name, tokens in (usage.as_dict() if usage else {}).items():
            self._usage[name] = self._usage.get(name, 0) + tokens
        if cost_usd is not None:
            self._cost_usd = (self._cost_usd or 0.0) + cost_usd

    # --- answering

    async def _conclude(self, step: ModelStep, answer: Answer, is_last: bool) -> ModelStep | None:
        """End with this answer, or return the step that repairs it."""
        output: Any = answer.text
        if self._definition.output_schema is not None:
            try:
                output = parse_output(answer.text, self._definition.output_schema)
            except OutputInvalid as wrong:
                if self._is_repaired:
                    raise
                return await self._ask_for_repair(step, answer, wrong)
        if is_last and not answer.text.strip():
            output = "I used every tool call I may make without reaching an answer."
        message, item = _message(step, output if isinstance(output, str) else answer.text, answer, ())
        end = self._end("succeeded", reason="max_iterations" if is_last else None, output=output)
        await self._context.save(Commit(events=[message, end], ended=[step.ended(answer)], history=[item]))
        return None

    async def _ask_for_repair(self, step: ModelStep, answer: Answer, wrong: OutputInvalid) -> ModelStep:
        self._is_repaired = True
        attempts = step.attempt
        await step.withdraw(ErrorPayload(code=wrong.code, message=str(wrong), retryable=True, attempt=1))
        self._repair = [
            {"role": "assistant", "content": answer.text},
            {"role": "user", "content": repair_request(str(wrong))},
        ]
        following = self._begin(self._model_step(is_last=False))
        ended = StepEnded(
            id=step.id, status="failed", usage=answer.usage.as_dict() if answer.usage else None,
            cost_usd=answer.cost_usd, attempts=attempts,
        )  # fmt: skip
        await self._context.save(Commit(ended=[ended], started=[following.started()]))
        return following

    # --- using tools

    async def _use_tools(self, step: ModelStep, answer: Answer, next_is_last: bool) -> ModelStep:
        """Run every call of the answer and return the next model step, committed as started."""
        timeout_s = self._definition.timeouts.tool_s
        calls = [ToolStep(self._context, call, self._tools, timeout_s) for call in answer.tool_calls]
        message, item = _message(step, answer.text, answer, calls)
        announced = [call.announced(step.message_id) for call in calls]
        started = [call.started() for call in calls]
        change = Commit(events=[message, *announced], ended=[step.ended(answer)], started=started, history=[item])
        try:
            await self._context.save(change)
        except asyncio.CancelledError:  # the commit is finished all the same: the calls are announced
            self._announced(calls, step)
            raise
        self._announced(calls, step)
        return await self._run_calls(next_is_last)

    def _announced(self, calls: list[ToolStep], step: ModelStep) -> None:
        """From here on each of these calls needs a result, whatever happens."""
        self._calls, self._calls_of, self._step = calls, step.message_id, None
        self._steps += len(calls)

    async def _run_calls(self, next_is_last: bool) -> ModelStep:
        gate = asyncio.Semaphore(CALLS_AT_ONCE)

        async def run(call: ToolStep) -> ToolStep:
            async with gate:
                await call.run()
            return call

        tasks = [asyncio.create_task(run(call)) for call in self._calls]
        try:
            for finished in asyncio.as_completed(tasks):
                call = await finished
                if len(self._calls) == 1:
                    break
                self._calls.remove(call)
                await self._context.save(self._result(call))
        except asyncio.CancelledError:
            await _cancel(tasks)
            raise
        return await self._next_step(call, next_is_last)

    async def _next_step(self, call: ToolStep, next_is_last: bool) -> ModelStep:
        """Commit the last result together with the start of what follows it."""
        self._context.add_to_history(call.remembered())
        result = self._result(call)
        following = self._begin(self._model_step(is_last=next_is_last))
        await self._context.writer.commit(
            Commit(events=result.events, ended=result.ended, history=result.history, started=[following.started()])
        )
        return following

    def _result(self, call: ToolStep) -> Commit:
        return Commit(events=[call.told(self._calls_of)], ended=[call.ended()], history=[call.remembered()])

    # --- ending early

    async def finish_stopped(self) -> None:
        """End a run that was asked to stop: partial text kept and marked, every open call answered."""
        events, ended, history = self._cut_off("cancelled")
        events.append(self._end("cancelled", reason="stopped by the user"))
        history.append(_note("Stopped by the user."))
        await self._context.save(Commit(events=events, ended=ended, history=history))

    async def finish_failed(self, wrong: CallboardError) -> None:
        """End a run that failed: the error is an event and a history item, and the thread stays usable."""
        events, ended, history = self._cut_off("failed")
        events.append(ErrorPayload(code=wrong.code, message=str(wrong), retryable=False))
        events.append(self._end("failed", reason=wrong.code))
        history.append(_note(str(wrong), wrong.code))
        await self._context.save(Commit(events=events, ended=ended, history=history, error_code=wrong.code))

    def _cut_off(self, status: str) -> tuple[list[Payload], list[StepEnded], list[HistoryItem]]:
        """Return what makes the log and the history whole, wherever the work was cut off."""
        events: list[Payload] = []
        ended: list[StepEnded] = []
        history: list[HistoryItem] = []
        if self._step is not None:
            if not self._is_whole:
                self._count(self._step.partial_usage(), self._step.partial_cost())
            ended.append(self._step.failed(status))
            partial = self._step.partial(is_cut=not self._is_whole)
            if partial is not None:
                events.append(partial[0])
                history.append(partial[1])
        for call in self._calls:
            call.interrupt()
            events.append(call.told(self._calls_of))
            ended.append(call.ended())
            history.append(call.remembered())
        return events, ended, history

    def _end(self, status: EndStatus, *, reason: str | None = None, output: Any = None) -> EndPayload:
        return EndPayload(
            status=status, reason=reason, output=output, usage=dict(self._usage) or None, cost_usd=self._cost_usd,
            steps=self._steps, duration_ms=epoch_ms() - self._context.lease.created_ms,
        )  # fmt: skip


def _message(
    step: ModelStep, text: str, answer: Answer, calls: Sequence[ToolStep]
) -> tuple[MessagePayload, HistoryItem]:
    """Return an answer as an event and as a message of the history."""
    shown = [{"call_id": c.call.id, "name": c.call.name, "arguments": c.arguments} for c in calls]
    payload = MessagePayload(
        role="assistant", content=text or None, reasoning=answer.reasoning or None, tool_calls=shown or None,
        message_id=step.message_id, step_id=step.id,
    )  # fmt: skip
    data: dict[str, Any] = {"content": text}
    if answer.reasoning:
        data["reasoning"] = answer.reasoning
    if answer.thinking_blocks:
        data["thinking_blocks"] = [dict(block) for block in answer.thinking_blocks]
    if calls:
        data["tool_calls"] = [
            {**entry, "arguments_text": c.call.arguments_text} for entry, c in zip(shown, calls, strict=True)
        ]
    return payload, HistoryItem(id=step.message_id, role="assistant", data=data)


def _note(text: str, code: str | None = None) -> HistoryItem:
    data = {"content": text} | ({"code": code} if code else {})
    return HistoryItem(id=new_id("msg"), role="error", data=data)


async def _cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
