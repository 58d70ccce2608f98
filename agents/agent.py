"""The agent: asks the model, runs the tools it calls, and asks again, until there is an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agents.context import RunContext
from agents.model_step import Answer, ModelStep, Spent
from agents.models.call import ModelCall, Timeouts
from agents.models.calls import ToolCall
from agents.output import parse_output, repair_request, response_format
from agents.prompt import LAST_CALL, Message, messages_for, offered
from agents.tool_step import ToolStep
from agents.tools.tool import Tool
from bus.journal.parting import Parting
from bus.journal.progress import NOTHING_YET, OpenStep, Progress
from bus.journal.steps import StepEnded, StepStarted
from bus.journal.threads import HistoryItem
from bus.journal.writer import Commit
from bus.payloads import EndPayload, EndStatus, ErrorPayload, MessagePayload, Payload, StatusPayload
from config.definitions import AgentDefinition
from config.errors import CallboardError, OutcomeUnknown, OutputInvalid
from config.ids import new_id
from config.redaction import redact

CALLS_AT_ONCE = 16
"""Tool calls of one answer that run at the same time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Opening:
    """What has to be committed, with the claim, before ``run``."""

    started: Sequence[StepStarted] = ()
    restarted: Sequence[str] = ()
    """Steps of an earlier owner that are taken up again."""
    answers_used: Sequence[str] = ()
    """Approvals whose decision is acted on now."""


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

    A run that had an owner before goes on behind what that one committed: nothing recorded is done again, an
    unanswered model call is asked again, and a call that was under way is made again, looked into, or asked
    about, as its effect allows. Where nobody can tell what came of a call, the run waits for a person, fails,
    or tells the model (``on_unknown``).

    A stop, a lost lease or the end of the process cancels the task at any point; ``finish_stopped`` then leaves
    a valid history, and ``let_go`` leaves the run to the next owner.
    """

    def __init__(
        self,
        definition: AgentDefinition,
        tools: Mapping[str, Tool],
        context: RunContext,
        progress: Progress = NOTHING_YET,
    ) -> None:
        self._definition = definition
        self._tools = tools
        self._context = context
        self._progress = progress
        self._spent = Spent(usage=progress.usage, cost_usd=progress.cost_usd)
        self._steps = progress.steps
        self._rounds = progress.rounds
        self._step: ModelStep | None = None
        self._is_whole = False  # whether the step's answer arrived completely, and was counted
        self._calls: list[ToolStep] = []
        self._calls_of = progress.calls_of
        self._repair = _repair_messages(progress.repair)

    def begin(self) -> Opening:
        """Return what has to be committed before ``run``, which then begins or goes on."""
        progress = self._progress
        if progress.calls:
            self._calls = [self._taken_up(step) for step in progress.calls]
            used = [step.approval_id for step in progress.calls if step.approval_id is not None]
            return Opening(restarted=[call.id for call in self._calls if call.will_run], answers_used=used)
        if progress.asking is not None:
            self._step = self._model_step(again=progress.asking)
            return Opening(restarted=[self._step.id])
        return Opening(started=[self._begin(self._model_step()).started()])

    def _taken_up(self, step: OpenStep) -> ToolStep:
        """Return a call an earlier owner left, as the model wrote it."""
        call = ToolCall(id=step.call_id, name=step.name, arguments_text=step.arguments_text or "")
        return ToolStep(self._context, call, self._tools, self._definition.timeouts.tool_s, again=step)

    async def run(self) -> None:
        """Work the run off from where it stands, and end it, or let it go.

        Raises:
            CallboardError: it failed; ``finish_failed`` writes that down.
            StaleOwner: somebody else owns the run now.
        """
        assert self._step is not None or self._calls, "begin() comes first"
        step = self._step if self._step is not None else await self._run_calls()
        while step is not None:
            answer = await step.ask()
            self._is_whole = True
            self._spent = self._spent.plus(*_both(step.cost(answer.usage)))
            if not answer.tool_calls or self._is_last:
                step = await self._conclude(step, answer)
            else:
                step = await self._use_tools(step, answer)

    @property
    def _is_last(self) -> bool:
        """Whether every round with tools is used up, so that the model has to answer without."""
        return self._rounds >= self._definition.max_iterations

    # --- asking

    def _model_step(self, again: OpenStep | None = None) -> ModelStep:
        definition, context = self._definition, self._context
        messages = messages_for(
            definition,
            context.chat_history,
            is_cut=context.is_history_cut,
            max_result_chars=context.settings.max_result_chars,
        )
        messages += self._repair
        if self._is_last:
            messages.append({"role": "system", "content": LAST_CALL})
        timeouts = definition.timeouts
        call = ModelCall(
            model=context.lease.model,
            messages=messages,
            tools=offered(self._tools) or None,
            effects={name: tool.effect for name, tool in self._tools.items()},
            starters=definition.starters,
            tool_choice="none" if self._is_last and self._tools else None,
            params=definition.params,
            response_format=response_format(definition.output_schema) if definition.output_schema else None,
            api_base=definition.api_base,
            api_key_env=definition.api_key_env,
            timeouts=Timeouts(
                connect_s=timeouts.connect_s, first_token_s=timeouts.first_token_s,
                between_chunks_s=timeouts.between_chunks_s, total_s=timeouts.total_s,
            ),
        )  # fmt: skip
        return ModelStep(context, call, again=again)

    def _begin(self, step: ModelStep) -> ModelStep:
        """Take ``step`` as the one that is being worked on, also for a stop that comes while it is committed."""
        self._step, self._is_whole = step, False
        self._calls = []
        self._steps += 1
        return step

    # --- answering

    async def _conclude(self, step: ModelStep, answer: Answer) -> ModelStep | None:
        """End with this answer, or return the step that repairs it."""
        output: Any = answer.text
        if self._definition.output_schema is not None:
            try:
                output = parse_output(answer.text, self._definition.output_schema)
            except OutputInvalid as wrong:
                if self._repair:
                    raise
                return await self._ask_for_repair(step, answer, wrong)
        if self._is_last and not answer.text.strip():
            output = "I used every tool call I may make without reaching an answer."
        message, item = _message(step, output if isinstance(output, str) else answer.text, answer, ())
        end = self._end("succeeded", reason="max_iterations" if self._is_last else None, output=output)
        await self._context.save(Commit(events=[message, end], ended=[step.ended(answer)], history=[item]))
        return None

    async def _ask_for_repair(self, step: ModelStep, answer: Answer, wrong: OutputInvalid) -> ModelStep | None:
        refused = step.refused(answer, str(wrong))
        await step.withdraw(ErrorPayload(code=wrong.code, message=str(wrong), retryable=True, attempt=1))
        self._repair = _repair_messages({"text": answer.text, "problem": str(wrong)})
        return await self._go_on(Commit(ended=[refused]))

    # --- using tools

    async def _use_tools(self, step: ModelStep, answer: Answer) -> ModelStep | None:
        """Run every call of the answer and return the next model step, committed as started."""
        timeout_s = self._definition.timeouts.tool_s
        calls = [ToolStep(self._context, call, self._tools, timeout_s) for call in answer.tool_calls]
        message, item = _message(step, answer.text, answer, calls)
        parting = self._parting
        change = Commit(
            events=[message, *(call.announced(step.message_id) for call in calls), *_moved(parting)],
            ended=[step.ended(answer)],
            started=[call.started("planned" if parting else "started") for call in calls],
            history=[item],
            parting=parting,
        )
        try:
            await self._context.save(change)
        except asyncio.CancelledError:  # the commit is finished all the same: the calls are announced
            self._announced(calls, step)
            raise
        self._announced(calls, step)
        return None if parting else await self._run_calls()

    def _announced(self, calls: list[ToolStep], step: ModelStep) -> None:
        """From here on each of these calls needs a result, whatever happens."""
        self._calls, self._calls_of, self._step = calls, step.message_id, None
        self._steps += len(calls)
        self._rounds += 1

    async def _run_calls(self) -> ModelStep | None:
        """Run the calls at once and commit each result, the last one with the step that follows.

        Returns None where the run was let go: this process ends, or nobody can tell what came of a call.
        """
        if any(call.is_given_up for call in self._calls):
            raise OutcomeUnknown("a call was cut off, and a person decided that the run fails for it.")
        gate, open_calls = asyncio.Semaphore(CALLS_AT_ONCE), len(self._calls)
        tasks = [asyncio.create_task(_run(call, gate)) for call in self._calls]
        try:
            for finished in asyncio.as_completed(tasks):
                call = await finished
                open_calls -= 1
                if call.is_unknown and self._definition.on_unknown != "tell_model":
                    continue  # it has no result before somebody says what became of it
                if open_calls == 0 and self._calls == [call]:
                    return await self._go_on(self._result(call))
                self._calls.remove(call)
                await self._context.save(self._result(call))
        except BaseException:  # a stop, or the run belongs to somebody else: nothing may go on behind it
            await _cancel(tasks)
            raise
        if self._calls:
            await self._ask_a_person()
            return None
        return await self._go_on(Commit())

    async def _go_on(self, change: Commit) -> ModelStep | None:
        """Commit ``change`` with the start of the next model step; with letting the run go, where this process ends."""
        for item in change.history:
            self._context.add_to_history(item)
        parting, following = self._parting, None
        if parting is None:
            following = self._begin(self._model_step())
        started = [following.started()] if following is not None else []
        events = [*change.events, *_moved(parting)]
        await self._context.writer.commit(replace(change, events=events, started=started, parting=parting))
        await self._context.note_calls_over()
        return following

    def _result(self, call: ToolStep) -> Commit:
        return Commit(events=[call.told(self._calls_of)], ended=[call.ended()], history=[call.remembered()])

    async def _ask_a_person(self) -> None:
        """Let the run wait for what a person says about the calls nobody can tell the outcome of."""
        if self._definition.on_unknown == "fail":
            names = ", ".join(call.call.name for call in self._calls)
            raise OutcomeUnknown(
                f"nobody can tell whether {names} took effect, and the agent is configured to fail then; look at the "
                "other side before you start a new run."
            )
        expires_ms = await self._context.wait_expiry_ms()
        questions = [call.question(expires_ms) for call in self._calls if not call.is_asked]
        names = ", ".join(call.call.name for call in self._calls)
        parting = Parting(
            status="waiting", reason="approval", questions=tuple(questions),
            detail=f"Nobody can tell whether {names} took effect; a person has to say how to go on.",
        )  # fmt: skip
        waits = StatusPayload(status="waiting", reason="approval")
        change = Commit(
            events=[*(question.payload() for question in questions), waits],
            unknown=[call.id for call in self._calls],
            parting=parting,
        )
        await self._context.save(change)

    @property
    def _parting(self) -> Parting | None:
        """How the run is let go at the end of a step, where this process ends soon; else None."""
        return Parting(status="queued", reason="drain") if self._context.is_released else None

    # --- ending early

    async def let_go(self) -> None:
        """Leave the run to its next owner in the middle of a step; calls that have a result keep it."""
        done = [call for call in self._calls if call.is_settled and not call.is_unknown]
        unbegun = [call.id for call in self._calls if not call.is_settled and call.will_run and not call.is_begun]
        results = [self._result(call) for call in done]
        parting = Parting(status="queued", reason="drain")
        change = Commit(
            events=[*(event for result in results for event in result.events), *_moved(parting)],
            ended=[end for result in results for end in result.ended],
            history=[item for result in results for item in result.history],
            planned=unbegun,
            parting=parting,
        )
        await self._context.save(change)

    async def finish_stopped(self) -> None:
        """End a run that was asked to stop: partial text kept and marked, every open call answered."""
        events, ended, history = self._cut_off("cancelled", "Stopped by the user")
        events.append(self._end("cancelled", reason="stopped by the user"))
        history.append(_note("Stopped by the user."))
        await self._context.save(Commit(events=events, ended=ended, history=history))

    async def finish_failed(self, wrong: CallboardError) -> None:
        """End a run that failed: the error is an event and a history item, and the thread stays usable."""
        events, ended, history = self._cut_off("failed", "The run failed")
        events.append(ErrorPayload(code=wrong.code, message=str(wrong), retryable=False))
        events.append(self._end("failed", reason=wrong.code))
        history.append(_note(str(wrong), wrong.code))
        await self._context.save(Commit(events=events, ended=ended, history=history, error_code=wrong.code))

    def _cut_off(self, status: str, by: str) -> tuple[list[Payload], list[StepEnded], list[HistoryItem]]:
        """Return what makes the log and the history whole, wherever the work was cut off."""
        events: list[Payload] = []
        ended: list[StepEnded] = []
        history: list[HistoryItem] = []
        if self._step is not None:
            if not self._is_whole:
                self._spent = self._spent.plus(*_both(self._step.cost(self._step.partial_usage())))
            ended.append(self._step.failed(status))
            partial = self._step.partial(is_cut=not self._is_whole)
            if partial is not None:
                events.append(partial[0])
                history.append(partial[1])
        for call in self._calls:
            call.interrupt(by)
            events.append(call.told(self._calls_of))
            ended.append(call.ended())
            history.append(call.remembered())
        return events, ended, history

    def _end(self, status: EndStatus, *, reason: str | None = None, output: Any = None) -> EndPayload:
        return EndPayload(
            status=status, reason=reason, output=output, usage=self._spent.usage or None,
            cost_usd=self._spent.cost_usd,
            steps=self._steps, duration_ms=self._context.duration_ms,
        )  # fmt: skip


async def _run(call: ToolStep, gate: asyncio.Semaphore) -> ToolStep:
    async with gate:
        await call.run()
    return call


def _moved(parting: Parting | None) -> list[Payload]:
    """Return the event that says that the run goes on elsewhere."""
    return [StatusPayload(status="moved", reason=parting.reason)] if parting is not None else []


def _both(spent: Spent) -> tuple[Mapping[str, int], float | None]:
    return spent.usage, spent.cost_usd


def _repair_messages(repair: Mapping[str, Any] | None) -> list[Message]:
    """Return what the model is shown to mend an answer that did not fit the schema."""
    if repair is None:
        return []
    return [
        {"role": "assistant", "content": repair["text"]},
        {"role": "user", "content": repair_request(repair["problem"])},
    ]


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
    data = {"content": redact(text)} | ({"code": code} if code else {})
    return HistoryItem(id=new_id("msg"), role="error", data=data)


async def _cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
