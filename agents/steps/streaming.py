"""Reads a model's answer as it streams: batches of chunks, four timeouts, and the result so far."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

from agents.governance.guardrails.errors import OutputBlocked
from agents.governance.guardrails.guardrails import UNGUARDED, Guardrails
from agents.models.errors import MODEL_REFUSED, ModelFailed
from agents.models.failures import too_slow
from agents.models.open import ModelStream
from agents.models.streams.chunk import Chunk, Usage
from agents.models.streams.tool_calls import CallCollector, ToolCall
from agents.tools.results import LARGE_CHARS

_LAST_WORDS_S = 0.25
"""Seconds to wait for the end of a finished stream, so that its connection can be used again."""
_CLOSE_S = 0.8


class StreamedResponseWrapper:
    """Iterates over an opened stream and collects its result.

    ``async for batch in stream: for chunk in batch:``, where a batch is what arrived in one read. After the loop
    ``text``, ``tool_calls`` and the other properties have the whole answer. Empty, incomplete and endless answers are
    raised as errors. Use it as ``async with``, or call ``aclose``.

    Text and thinking pass the guardrails before anything else sees them. A piece that may be the beginning of a secret
    is held back until the pieces after it decide, so a chunk may come without its text, and the last batch with it.
    """

    def __init__(self, stream: ModelStream, guardrails: Guardrails = UNGUARDED) -> None:
        self._guardrails = guardrails
        self._text_guard, self._thought_guard = guardrails.stream(), guardrails.stream()
        self._originals: dict[str, list[str]] | None = None
        if guardrails.keeps_originals:
            self._originals = {"answer": [], "thinking": []}
        self._max_answer_chars = guardrails.max_answer_chars
        self._clean = guardrails.scan.clean
        self._call = stream.call
        self._reader = stream.reader
        self._loop = asyncio.get_running_loop()
        self._timer = StreamTimer(self._loop)
        self._first_by = stream.started_at + stream.call.timeouts.first_token_s
        self._total_by = stream.started_at + stream.call.timeouts.total_s
        self._between_s = stream.call.timeouts.between_chunks_s
        self._has_begun = False
        self._is_closed = False
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._thoughts: list[str] = []  # as the provider signed them; kept where nothing in them had to be replaced
        self._calls = CallCollector()
        self._chars = 0
        self._text_chars = 0
        self.thinking_blocks: list[dict[str, Any]] = []
        """Signed and encrypted thinking in LiteLLM's format; sent back unchanged with the assistant's message."""
        self.finish_reason: str | None = None
        """stop, length, tool_calls or content_filter."""
        self.usage: Usage | None = None
        """Tokens as the provider counted them; None when it did not."""

    @property
    def text(self) -> str:
        return "".join(self._text)

    @property
    def reasoning(self) -> str:
        return "".join(self._reasoning)

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The tool calls so far, in the order they began, with unique ids."""
        return self._calls.calls()

    def newly_named(self) -> list[ToolCall]:
        """Return the calls whose names became complete since the last call; their arguments may be incomplete."""
        return self._calls.newly_named()

    async def __aiter__(self) -> AsyncIterator[list[Chunk]]:
        """Yield the batches, none of them empty; a stream can be read once.

        Raises:
            MODEL_TIMEOUT: one of the four timeouts passed; the message names its setting.
            ModelFailed: the stream is malformed, incomplete, empty or too long.
            MODEL_REFUSED: the provider refused the request.
            OutputBlocked: a guardrail blocks what the model wrote.
        """
        if self._is_closed:
            return
        try:
            while (batch := await self._read()) is not None:
                if batch:
                    yield batch
            if last := self._release():
                yield last
            self._check_result()
        except OutputBlocked:
            self._seal("answer", "thinking")
            raise
        finally:
            await self.aclose()

    async def __aenter__(self) -> StreamedResponseWrapper:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the provider's connection, within a second; the collected result stays."""
        self._timer.stop()
        if self._is_closed:
            return
        self._is_closed = True
        with suppress(Exception):  # a connection that cannot be closed nicely is gone all the same
            async with asyncio.timeout(_CLOSE_S):
                await self._reader.aclose()

    async def _read(self) -> list[Chunk] | None:
        """Return what arrived next; None at the end, also where a finished stream's connection stays open."""
        which, deadline = self._deadline()
        self._timer.watch(deadline)
        try:
            batch = await self._reader.read()
        except BaseException:
            if not self._timer.has_rung:
                raise
            self._late(which)
            return None
        finally:
            self._timer.rest()
        if self._timer.has_rung:
            self._late(which)
            return None
        if batch:
            await self._gather_in_time(batch)
        return batch

    def _deadline(self) -> tuple[str, float]:
        now = self._loop.time()
        if self._reader.done:
            return "", now + _LAST_WORDS_S
        if self._has_begun:
            which, deadline = "between_chunks_s", now + self._between_s
        else:
            which, deadline = "first_token_s", self._first_by
        return (which, deadline) if deadline < self._total_by else ("total_s", self._total_by)

    def _late(self, which: str) -> None:
        """Raise the timeout's error unless the answer is complete; a cancellation of the task takes precedence."""
        task = asyncio.current_task()
        if task is not None and task.uncancel() > self._timer.cancelled_before:
            raise asyncio.CancelledError
        if not self._reader.finished:
            raise too_slow(which, self._call)

    async def _gather_in_time(self, batch: list[Chunk]) -> None:
        """Gather the batch, on a thread where it is so large that it would delay the other streams."""
        if sum([len(chunk.text) + len(chunk.reasoning) for chunk in batch]) < LARGE_CHARS:
            self._gather(batch)
        else:
            await asyncio.to_thread(self._gather, batch)

    def _gather(self, batch: list[Chunk]) -> None:
        for at, chunk in enumerate(batch):
            if chunk.text or chunk.reasoning:
                batch[at] = chunk = self._guarded(chunk)
            for delta in chunk.tools:
                self._chars += self._calls.take(delta)
            if chunk.signature or chunk.redacted:
                self._gather_thinking(chunk)
            if chunk.finish_reason is not None and self.finish_reason in (None, "stop"):
                self.finish_reason = chunk.finish_reason
            if chunk.usage is not None:
                self.usage = chunk.usage
        if self._chars:
            self._has_begun = True
        if self._chars > self._call.max_output_chars:
            raise ModelFailed(
                f"the answer of '{self._call.model}' is too long: over {self._call.max_output_chars:,} characters; "
                "it was cut off. Set max_tokens in the agent's params."
            )
        if self._max_answer_chars is not None and self._text_chars > self._max_answer_chars:
            raise OutputBlocked([f"blocked: longer than {self._max_answer_chars:,} characters"])

    def _seal(self, *kinds: str) -> None:
        """Keep the originals of these texts, where the deployment keeps any."""
        originals = self._originals or {}
        for what in kinds:
            if original := "".join(originals.get(what, ())):
                self._guardrails.seal(what, original)

    def _guarded(self, chunk: Chunk) -> Chunk:
        """Return the chunk with what may be shown now of its text and its thinking, and gather that."""
        text, thought = chunk.text, chunk.reasoning
        if self._originals is not None:
            self._originals["answer"].append(text)
            self._originals["thinking"].append(thought)
        if text:
            self._text_chars += len(text)
            text = self._text_guard.add(text)
            self._text.append(text)
        if thought:
            self._thoughts.append(thought)
            thought = self._thought_guard.add(thought)
            self._reasoning.append(thought)
        self._chars += len(chunk.text) + len(chunk.reasoning)
        if text is chunk.text and thought is chunk.reasoning:
            return chunk
        return replace(chunk, text=text, reasoning=thought)

    def _release(self) -> list[Chunk]:
        """Return, as the last batch, what was held back until the end of the stream."""
        last = Chunk(text=self._text_guard.rest(), reasoning=self._thought_guard.rest())
        self._text.append(last.text)
        self._reasoning.append(last.reasoning)
        guards = {"answer": self._text_guard, "thinking": self._thought_guard}
        self._seal(*(what for what, guard in guards.items() if guard.is_changed))
        return [last] if last.text or last.reasoning else []

    def _gather_thinking(self, chunk: Chunk) -> None:
        """Complete a thinking block with its signature, or keep an encrypted one.

        A block with a secret is left out: without it the signature is not valid, and with it nothing may be kept.
        """
        if chunk.redacted:
            self.thinking_blocks.append({"type": "redacted_thinking", "data": chunk.redacted})
        if chunk.signature:
            thought = "".join(self._thoughts)
            self._thoughts.clear()
            if not self._clean(thought)[1]:
                self.thinking_blocks.append({"type": "thinking", "thinking": thought, "signature": chunk.signature})

    def _check_result(self) -> None:
        """Raise for an answer without text and tool calls."""
        self._calls.finish()
        if any(not call.name for call in self._calls.calls()):
            raise ModelFailed(f"'{self._call.model}' called a tool without naming it.")
        if len(self._calls) or any(piece.strip() for piece in self._text):
            return
        if self.finish_reason == "content_filter":
            raise MODEL_REFUSED(f"the provider's content filter kept back the answer of '{self._call.model}'.")
        if self.finish_reason == "length":
            raise ModelFailed(
                f"'{self._call.model}' used up its tokens before it began to answer; raise max_tokens in the "
                "agent's params."
            )
        raise ModelFailed(f"'{self._call.model}' sent an empty answer.")


# --- one timer for all timeouts of a stream


class StreamTimer:
    """Cancels the reading task when the current deadline passes.

    ``asyncio.timeout`` around each read would start and cancel a timer per chunk. This one is started once; when it
    fires, it checks whether the deadline has moved. Moving the deadline is an assignment.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._handle: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[object] | None = None
        self._deadline = 0.0
        self.has_rung = False
        """Whether the task was cancelled by this timer."""
        self.cancelled_before = 0
        """Pending cancellations of the task when the timer fired."""

    def watch(self, deadline: float) -> None:
        """Cancel the current task at loop time ``deadline``, unless ``rest`` is called before."""
        self._task = asyncio.current_task()
        self._deadline = deadline
        if self._handle is None or self._handle.when() > deadline:
            self._arm()

    def rest(self) -> None:
        """Suspend the deadline: the task is not waiting for the model now."""
        self._task = None

    def stop(self) -> None:
        self._task = None
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _arm(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._handle = self._loop.call_at(self._deadline, self._ring)

    def _ring(self) -> None:
        self._handle = None
        if self._task is None:
            return
        if self._loop.time() < self._deadline:
            self._arm()
            return
        self.has_rung = True
        self.cancelled_before = self._task.cancelling()
        self._task.cancel()
