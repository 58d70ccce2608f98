"""One model call of a run: sent, streamed as deltas, and retried after retryable errors."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agents.context import RunContext
from agents.errors import POLICY_REFUSED
from agents.governance.engine.errors import NoUsableAnswer
from agents.governance.engine.governance import RULE, GovernedCall, combined
from agents.models.call import ModelCall
from agents.models.cost import cost_of
from agents.models.failures import may_retry, retry_delay_s
from agents.models.fallbacks import MAX_WAIT_S, Models, may_fall_back
from agents.models.open import open_stream
from agents.models.streams.chunk import Usage
from agents.steps.streaming import StreamedResponseWrapper
from agents.steps.tool_step import ToolStep
from bus.journal.owner import Commit, HistoryItem, OpenStep, RunWriter, StepEnded, StepStarted, Totals
from bus.payloads import ErrorPayload, MessagePayload, Payload, ReasoningPayload, ResponsePayload, ToolNamePayload
from config.definitions.model_fields import Fallback
from config.errors import CallboardError
from config.ids import canonical_digest, new_id
from config.policy_decision import PolicyDecision, Verdict
from config.tracing import in_span, span_id_of

_REFUSING = (Verdict.BLOCK, Verdict.HALT, Verdict.REQUIRE_APPROVAL)
HELD_AT_ONCE = 200
"""Deltas that were held back and are delivered before other runs get their turn."""


class HeldOutput:
    """The deltas of a model call that viewers may not see before its input has passed a guard."""

    def __init__(self, writer: RunWriter) -> None:
        self._writer = writer
        self._deltas: list[tuple[type[Payload], dict[str, str]]] = []
        self.is_shown = False
        """Whether the input has passed, and deltas go out at once."""

    def delta(self, kind: type[Payload], fields: dict[str, str]) -> None:
        """Deliver a delta, or hold it back."""
        if self.is_shown:
            self._writer.delta(kind, fields)
        else:
            self._deltas.append((kind, fields))

    def drop(self) -> None:
        """Discard what is held back."""
        self._deltas.clear()

    async def show(self) -> None:
        """Deliver what is held back, a part at a time for the sake of other runs; later deltas go out at once."""
        while self._deltas:
            part, self._deltas[:HELD_AT_ONCE] = self._deltas[:HELD_AT_ONCE], []
            for kind, fields in part:
                self._writer.delta(kind, fields)
            await (self._writer.room() if self._writer.is_full else asyncio.sleep(0))
        self.is_shown = True


def _not_asked(model: str, decision: PolicyDecision) -> ErrorPayload:
    """Return the event about a fallback that the policy does not let the run ask."""
    message = f"'{model}' is not asked in its place: the policy's rule '{decision.rule}' forbids it. {decision.reason}"
    return ErrorPayload(code=POLICY_REFUSED.code, message=message.strip(), retryable=True)


class ModelStep:
    """One model call as one step of the journal; each attempt has a message of its own."""

    def __init__(self, context: RunContext, call: ModelCall, models: Models, *, prior: OpenStep | None = None) -> None:
        """``call``: of the first of ``models``. ``prior``: an earlier owner's open step, whose call is made again."""
        self.id = prior.id if prior else new_id("step")
        self.message_id = new_id("msg")
        self.attempt = 1
        self._attempts_before = prior.attempt if prior else 0
        self._spent = Totals()
        self._context = context
        self._call = call
        self._timeouts = call.timeouts
        self._models = models
        self._left = models.others
        """The models that this step may still ask."""
        self._asked_before = 0
        """Attempts of the models before the present one."""
        self._stream: StreamedResponseWrapper | None = None
        self._is_answered = False
        self.held: HeldOutput | None = None
        """What holds the output back until the input has passed its guard; None where none checks it."""
        self._pieces = 0
        self._notes: list[Payload] = []
        self._unanswered: NoUsableAnswer | None = None
        self._spans: list[Mapping[str, Any]] = []
        """The requests to the model of all attempts."""

        self.policy_decision = self._decided()
        """What the policy decides about the call."""

    def _decided(self) -> PolicyDecision:
        """Return what the policy decides about the call; its time is limited accordingly."""
        facts = self._context.call_facts("model", self._call.model)
        decision = self._context.policy.decide(replace(facts, model=self._call.model))
        if decision.timeout_s is not None and decision.timeout_s < self._timeouts.total_s:
            timeouts = self._timeouts.model_copy(update={"total_s": decision.timeout_s})
            self._call = replace(self._call, timeouts=timeouts)
        return decision

    async def ask_engine(self) -> Sequence[Payload]:
        """Ask the governance engine about the call, and adopt what it decides if that is stricter.

        Returns the events to be committed with the decision. The engine may change the newest message for this call.
        """
        governance = self._context.governance
        if governance is None or self.policy_decision.verdict in _REFUSING:
            return ()
        judged = await governance.before(self._governed)
        changed, self._unanswered = judged.decision.arguments, judged.error
        # The messages are not part of the record: what is kept of a decision is that there was a change.
        self.policy_decision = replace(combined(self.policy_decision, judged.decision), arguments=None)
        if changed is not None:
            self._change_prompt(changed)
        return judged.notes

    @property
    def _governed(self) -> GovernedCall:
        newest = self._call.messages[-1].get("content") if self._call.messages else None
        return GovernedCall(
            step_id=self.id,
            call_id=self.message_id,
            point="model",
            name=self._call.model,
            arguments={
                "model": self._call.model,
                "prompt": newest if isinstance(newest, str) else "",
                "messages": len(self._call.messages),
                "tools": sorted(self._call.effects),
                **self._unseen,
            },
            attempt=self._attempts_before + self.attempt,
        )

    @property
    def _unseen(self) -> Mapping[str, Any]:
        """What else of the input the engine has to see, because no event of another call has it."""
        return {}

    def _change_prompt(self, changed: Mapping[str, Any]) -> None:
        before = self._governed.arguments
        if not isinstance(changed.get("prompt"), str) or {**changed, "prompt": ""} != {**before, "prompt": ""}:
            problem = "the governance engine changed more than the prompt."
            self.policy_decision = replace(self.policy_decision, verdict=Verdict.BLOCK, rule=RULE, reason=problem)
            return
        *others, newest = self._call.messages
        self._call = replace(self._call, messages=[*others, {**newest, "content": changed["prompt"]}])

    async def report_to_engine(self, text: str) -> str:
        """Send the engine the answer's text, and return the text that is kept: as it is, or as the engine changed it.

        Raises:
            POLICY_REFUSED: the engine does not let the answer pass, or ends the run.
        """
        governance = self._context.governance
        if governance is None:
            return text
        judged = await governance.after(
            self._governed, status="completed", output=text, duration_ms=None, spans=self._spans
        )
        self._notes += judged.notes
        decision = judged.decision
        if decision.verdict in _REFUSING:
            raise judged.error or POLICY_REFUSED(rule=decision.rule, reason=decision.reason)
        if not judged.is_output_changed:
            return text
        if not isinstance(judged.output, str):
            raise POLICY_REFUSED(rule=RULE, reason="The engine replaced the answer by something that is no text.")
        return judged.output

    @property
    def model(self) -> str:
        """The model that is asked."""
        return self._call.model

    def started(self) -> StepStarted:
        """Return the journal's entry that has to be committed before ``ask``."""
        return self._started("model")

    def _started(self, kind: str) -> StepStarted:
        request = {"model": self._call.model, "messages": self._call.messages, "tools": self._call.tools}
        digest, key = canonical_digest(request), new_id("key")
        return StepStarted(
            id=self.id,
            kind=kind,
            name=self._call.model,
            arguments_digest=digest,
            idempotency_key=key,
            decision=self.policy_decision,
        )

    async def ask(self) -> StreamedResponseWrapper:
        """Call the model and return the answer; it was streamed as deltas, and failed attempts' deltas are withdrawn.

        Raises:
            POLICY_REFUSED: the policy does not allow the call.
            EngineUnavailable, EngineInputCut: there is no usable answer of the governance engine, and the operator's
                setting is ``fail_closed``.
            CallboardError: the error of the last attempt that the retry policy allows, of the last model.
        """
        if self.policy_decision.verdict in _REFUSING:
            raise self._unanswered or POLICY_REFUSED(rule=self.policy_decision.rule, reason=self.policy_decision.reason)
        while True:
            try:
                within = self._context.within(self._call.timeouts.connect_s + self._call.timeouts.total_s)
                with within, in_span(span_id_of(self.id)), self._context.keeping_spans(self._spans.extend):
                    return await self._attempt()
            except CallboardError as error:
                if not await self._retry(error) and not await self._fall_back(error):
                    raise

    async def _retry(self, error: CallboardError) -> bool:
        """Wait for the next attempt of the same model, and return whether there is one."""
        attempt = self.attempt - self._asked_before
        if not may_retry(attempt, error):
            return False
        delay_s = retry_delay_s(attempt, error, random.random)
        if self._left and delay_s > MAX_WAIT_S:
            return False
        await self._withdraw(self._error(error, retry_in_ms=int(delay_s * 1000)))
        await asyncio.sleep(delay_s)
        return True

    async def _fall_back(self, error: CallboardError) -> bool:
        """Make the call one of the next model that may be asked, and return whether there is one."""
        failed, before, refusals = self._call, (self.policy_decision, self._unanswered), list[Payload]()
        while self._left and may_fall_back(error):
            other = self._left.pop(0)
            self._call = replace(failed, **dict(other), timeouts=self._timeouts)
            self.policy_decision = self._decided()
            notes = await self.ask_engine()
            call, decision = self._call, self.policy_decision
            self._call = failed  # what the failed attempt has used is charged to its model
            if decision.verdict not in _REFUSING:
                switched = self._error(error, from_model=failed.model, to_model=other.model)
                change = Commit(events=notes, decided={self.id: decision}, models={self.id: other.model})
                await self._withdraw(*refusals, switched, change=change)
                self._call, self._asked_before = call, self.attempt - 1
                self._use(other)
                return True
            refusals += [*notes, _not_asked(other.model, decision)]
            self.policy_decision, self._unanswered = before
        if refusals:
            await self._context.save(Commit(events=refusals))
        return False

    def _use(self, model: Fallback) -> None:
        """Let the run's next steps begin with this model."""
        self._models.use(model)
        self._context.lease = replace(self._context.lease, model=model.model)

    def _error(self, error: CallboardError, **more: Any) -> ErrorPayload:
        return ErrorPayload(code=error.code, message=str(error), retryable=True, attempt=self.attempt, **more)

    async def _attempt(self) -> StreamedResponseWrapper:
        writer, ids = self._context.writer, {"message_id": self.message_id, "step_id": self.id}
        show = writer.delta if self.held is None else self.held.delta
        opened = await open_stream(self._call)
        async with StreamedResponseWrapper(opened, self._context.guardrails) as stream:
            self._stream = stream
            async for batch in stream:
                for chunk in batch:
                    if chunk.reasoning:
                        self._pieces += 1
                        show(ReasoningPayload, {"content": chunk.reasoning, **ids})
                    if chunk.text:
                        self._pieces += 1
                        show(ResponsePayload, {"content": chunk.text, **ids})
                for named in stream.newly_named():
                    show(ToolNamePayload, {"call_id": named.id, "name": named.name, **ids})
                if writer.is_full:
                    await writer.room()
        self._is_answered = True
        return stream

    async def _withdraw(self, *events: Payload, change: Commit | None = None) -> None:
        """Withdraw this attempt's deltas with these events, and reset for the next attempt."""
        charged = self._pieces or self._is_answered  # providers charge for failed attempts too
        spent = self.spent if charged else self._spent
        if self.held is not None:
            self.held.drop()
        await self._note_failure(*events, change=change)
        self.message_id = new_id("msg")
        self.attempt += 1
        # Together, without waiting between: a stop during the withdrawal would count the attempt twice.
        self._spent, self._stream, self._is_answered, self._pieces = spent, None, False, 0

    async def _note_failure(self, *events: Payload, change: Commit | None = None) -> None:
        """Withdraw what this attempt has shown, and show why."""
        await self._context.writer.withdraw(self.message_id, *events, change=change)

    # --- how it ends

    @property
    def spent(self) -> Totals:
        """What the step has used so far, including failed attempts."""
        usage = self._usage()
        last = Totals(usage=usage.as_dict() if usage else {}, cost_usd=cost_of(self._call.model, usage))
        return self._spent.plus(last)

    def concluded(self, text: str, calls: Sequence[ToolStep] = ()) -> Commit:
        """Return the commit that ends the step: the answer's message with ``text``, as an event and in the history.

        ``calls`` are the tool calls that will be made; those of the last answer are not.
        """
        answer = self._stream
        assert answer is not None, "ask() comes first"
        reasoning = answer.reasoning
        calls_shown = [
            {"call_id": step.record.call.id, "name": step.record.call.name, "arguments": step.decision.arguments}
            for step in calls
        ]
        payload = self._message(text or None, reasoning, tool_calls=calls_shown or None)
        data: dict[str, Any] = {"content": text}
        if reasoning:
            data["reasoning"] = reasoning
        if answer.thinking_blocks:
            data["thinking_blocks"] = answer.thinking_blocks
        if calls:
            sent = [{"arguments_text": step.record.call.arguments_text} for step in calls]
            data["tool_calls"] = [entry | as_sent for entry, as_sent in zip(calls_shown, sent, strict=True)]
        item = HistoryItem(id=self.message_id, role="assistant", data=data)
        result = {"message_id": self.message_id, "finish_reason": answer.finish_reason, "calls": len(answer.tool_calls)}
        return Commit(events=[*self._notes, payload], ended=[self._ended("done", result)], history=[item])

    async def refuse(self, text: str, error: CallboardError) -> StepEnded:
        """Withdraw an answer that the model has to correct, and return the step's end for the journal."""
        ended = self._ended("failed", {"repair": {"text": text, "problem": str(error)}})
        await self._withdraw(ErrorPayload(code=error.code, message=str(error), retryable=True, attempt=1))
        return ended

    def cut_off(self, status: str) -> Commit:
        """Return the commit that ends an interrupted step: its partial message, marked as such."""
        ended = self._ended(status, None)
        stream, is_cut = self._stream, not self._is_answered
        is_held = self.held is not None and not self.held.is_shown
        if stream is None or is_held or not (stream.text or stream.reasoning):
            return Commit(ended=[ended])
        payload = self._message(stream.text, stream.reasoning, partial=is_cut or None)
        data = {"content": stream.text} | ({"reasoning": stream.reasoning} if stream.reasoning else {})
        item = HistoryItem(id=self.message_id, role="assistant", data=data, partial=is_cut)
        return Commit(events=[payload], ended=[ended], history=[item])

    def _message(self, content: str | None, reasoning: str, **more: Any) -> MessagePayload:
        more |= {"role": "assistant", "content": content, "reasoning": reasoning or None}
        return MessagePayload(message_id=self.message_id, step_id=self.id, **more)

    def _ended(self, status: str, result: dict[str, Any] | None) -> StepEnded:
        spent, attempts = self.spent, self._attempts_before + self.attempt
        return StepEnded(
            id=self.id,
            status=status,
            usage=spent.usage or None,
            cost_usd=spent.cost_usd,
            result=result,
            attempts=attempts,
            spans=self._spans,
        )

    def _usage(self) -> Usage | None:
        """Return the usage of this attempt's answer: as reported, else estimated where the answer is interrupted.

        Providers report usage in the last chunk. The estimate counts a token per chunk and per four characters of the
        prompt.
        """
        if self._stream is None:
            return None
        if self._is_answered or self._stream.usage is not None:
            return self._stream.usage
        prompt_chars = sum(len(str(message.get("content") or "")) for message in self._call.messages)
        return Usage(input_tokens=max(1, prompt_chars // 4), output_tokens=self._pieces)
