"""One model call of a run: asked, streamed as deltas, tried again where that helps."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agents.context import RunContext
from agents.models.call import ModelCall
from agents.models.chunk import Usage
from agents.models.cost import cost_of
from agents.models.open import open_stream
from agents.models.retry import RetryPolicy
from agents.streaming import StreamedResponseWrapper, ToolCall
from bus.journal.accept import canonical_digest
from bus.journal.progress import OpenStep
from bus.journal.steps import StepEnded, StepStarted
from bus.journal.threads import HistoryItem
from bus.payloads import ErrorPayload, MessagePayload
from config.errors import CallboardError
from config.ids import new_id

DEFAULT_POLICY = RetryPolicy()


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What the model said, whole."""

    text: str
    reasoning: str
    tool_calls: tuple[ToolCall, ...]
    thinking_blocks: tuple[Mapping[str, Any], ...]
    usage: Usage | None
    cost_usd: float | None
    finish_reason: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Spent:
    """Tokens and their price."""

    usage: Mapping[str, int] = field(default_factory=dict)
    cost_usd: float | None = None
    """None where no part of it is known: unknown is not free."""

    def plus(self, usage: Mapping[str, int], cost_usd: float | None) -> Spent:
        """Return both together."""
        total = {name: self.usage.get(name, 0) + usage.get(name, 0) for name in {**self.usage, **usage}}
        costs = [cost for cost in (self.cost_usd, cost_usd) if cost is not None]
        return Spent(usage=total, cost_usd=sum(costs) if costs else None)


class ModelStep:
    """Asks once, as one step of the journal; each attempt has a message of its own."""

    def __init__(
        self,
        context: RunContext,
        call: ModelCall,
        *,
        policy: RetryPolicy = DEFAULT_POLICY,
        draw: Callable[[], float] = random.random,
        again: OpenStep | None = None,
    ) -> None:
        """``again``: the step of an earlier owner that did not come to an answer; it is asked once more."""
        self.id = again.id if again else new_id("step")
        self.message_id = new_id("msg")
        self.attempt = 1
        self._attempts_before = again.attempt if again else 0
        self._spent = Spent()
        self._context = context
        self._call = call
        self._policy = policy
        self._draw = draw
        self._stream: StreamedResponseWrapper | None = None
        self._pieces = 0

    def started(self) -> StepStarted:
        """Return the line of the journal that has to be committed before ``ask``."""
        asked = {"model": self._call.model, "messages": self._call.messages, "tools": self._call.tools}
        return StepStarted(
            id=self.id, kind="model", name=self._call.model, arguments_digest=canonical_digest(asked),
            idempotency_key=new_id("key"),
        )  # fmt: skip

    async def ask(self) -> Answer:
        """Return the answer; its pieces have gone out as deltas, those of failed attempts were withdrawn.

        Raises:
            CallboardError: the last attempt's failure, after every attempt the policy allows.
        """
        timeouts = self._call.timeouts
        while True:
            try:
                with self._context.within(timeouts.connect_s + timeouts.total_s):
                    return await self._attempt()
            except CallboardError as wrong:
                if not self._policy.allows(self.attempt, wrong):
                    raise
                await self._try_again(wrong)

    async def _attempt(self) -> Answer:
        writer = self._context.writer
        async with StreamedResponseWrapper(await open_stream(self._call)) as stream:
            self._stream = stream
            async for batch in stream:
                for chunk in batch:
                    if chunk.reasoning:
                        self._pieces += 1
                        writer.reasoning(chunk.reasoning, self.message_id, self.id)
                    if chunk.text:
                        self._pieces += 1
                        writer.response(chunk.text, self.message_id, self.id)
                for named in stream.newly_named():
                    writer.tool_name(named.id, named.name, self.message_id, self.id)
                if writer.is_full:
                    await writer.room()
        return self._answer(stream)

    def _answer(self, stream: StreamedResponseWrapper) -> Answer:
        return Answer(
            text=stream.text,
            reasoning=stream.reasoning,
            tool_calls=tuple(stream.tool_calls),
            thinking_blocks=tuple(stream.thinking_blocks),
            usage=stream.usage,
            cost_usd=cost_of(self._call.model, stream.usage),
            finish_reason=stream.finish_reason,
        )

    async def _try_again(self, wrong: CallboardError) -> None:
        delay_s = self._policy.delay_s(self.attempt, wrong, self._draw)
        told = ErrorPayload(
            code=wrong.code, message=str(wrong), retryable=True, attempt=self.attempt, retry_in_ms=int(delay_s * 1000)
        )
        self._spend()
        await self.withdraw(told)
        await asyncio.sleep(delay_s)

    def _spend(self) -> None:
        """Count what an attempt has cost that came to nothing; the provider charges for it all the same."""
        if self._pieces:
            self._spent = self.cost(self.partial_usage())

    def cost(self, usage: Usage | None) -> Spent:
        """Return what the step has used with ``usage`` of its last attempt, failed attempts included."""
        return self._spent.plus(usage.as_dict() if usage else {}, cost_of(self._call.model, usage))

    async def withdraw(self, told: ErrorPayload) -> None:
        """Take back what this attempt streamed, say why, and be ready for another one."""
        await self._context.writer.withdraw(self.message_id, told)
        self.message_id = new_id("msg")
        self.attempt += 1
        self._stream = None
        self._pieces = 0

    def ended(self, answer: Answer) -> StepEnded:
        """Return the journal's line for a whole answer."""
        result = {
            "message_id": self.message_id, "finish_reason": answer.finish_reason, "calls": len(answer.tool_calls),
        }  # fmt: skip
        return self._ended("done", self.cost(answer.usage), result)

    def refused(self, answer: Answer, problem: str) -> StepEnded:
        """Return the journal's line for an answer that has to be mended."""
        return self._ended("failed", self.cost(answer.usage), {"repair": {"text": answer.text, "problem": problem}})

    def failed(self, status: str = "failed") -> StepEnded:
        """Return the journal's line for a call that came to nothing."""
        return self._ended(status, self.cost(self.partial_usage()), None)

    def _ended(self, status: str, spent: Spent, result: dict[str, Any] | None) -> StepEnded:
        return StepEnded(
            id=self.id, status=status, usage=spent.usage or None, cost_usd=spent.cost_usd, result=result,
            attempts=self._attempts_before + self.attempt,
        )  # fmt: skip

    # --- an answer that was cut off

    def partial(self, *, is_cut: bool) -> tuple[MessagePayload, HistoryItem] | None:
        """Return the message as far as it came, marked if it ``is_cut``, or None when there is no text yet."""
        if self._stream is None or not (self._stream.text or self._stream.reasoning):
            return None
        text, reasoning = self._stream.text, self._stream.reasoning
        payload = MessagePayload(
            role="assistant", content=text, reasoning=reasoning or None, partial=is_cut or None,
            message_id=self.message_id, step_id=self.id,
        )  # fmt: skip
        data = {"content": text} | ({"reasoning": reasoning} if reasoning else {})
        return payload, HistoryItem(id=self.message_id, role="assistant", data=data, partial=is_cut)

    def partial_usage(self) -> Usage | None:
        """Return what a cut-off answer has used: as reported, else estimated from its pieces and the prompt.

        Providers report usage with the last chunk, which never came. A chunk is about a token; four
        characters of a prompt are about one too.
        """
        if self._stream is None:
            return None
        if self._stream.usage is not None:
            return self._stream.usage
        asked = sum(len(str(message.get("content") or "")) for message in self._call.messages)
        return Usage(input_tokens=max(1, asked // 4), output_tokens=self._pieces)
