"""The stream of a scripted model's answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING

from agents.models.errors import ModelRefused
from agents.models.scripted.script import ScriptedModel, Turn, scripted_model, words
from agents.models.streams.chunk import Chunk, ToolDelta, Usage

if TYPE_CHECKING:
    from agents.models.call import ModelCall

PIECE_CHARS = 8
"""Characters of a call's arguments in one chunk."""
_call_numbers = count(1)


class ScriptedReader:
    """Reads one turn, a chunk at a time."""

    def __init__(self, call: ModelCall) -> None:
        self._model = _model_of(call)
        self._turn = self._model.take(call)
        self._chunks = iter(_chunks_of(self._turn))
        self._sent = 0
        self.finished = False
        self.done = False
        if self._turn.error is not None and not self._turn.error_after:
            raise self._turn.error

    async def read(self) -> list[Chunk] | None:
        if self._turn.error is not None and self._sent == self._turn.error_after:
            raise self._turn.error
        if self._sent == self._turn.stall_after:
            await self._model.stall()
        chunk = next(self._chunks, None)
        if chunk is None:
            return None
        await asyncio.sleep(0)  # as with a socket, other tasks run between two chunks
        self._sent += 1
        self.finished = self.done = chunk.finish_reason is not None
        return [chunk]

    async def aclose(self) -> None:
        if not self.finished:
            self._model.closed_early.set()


def _model_of(call: ModelCall) -> ScriptedModel:
    model = scripted_model(call.model)
    if model is None:
        raise ModelRefused(
            f"there is no model '{call.model}' in this process: a scripted model is made by a test (docs/testing.md)."
        )
    return model


def _chunks_of(turn: Turn) -> Iterator[Chunk]:
    said = 0
    for chunk in _pieces_of(turn):
        said += 1
        yield chunk
    reason = turn.finish_reason or ("tool_calls" if turn.calls else "stop")
    yield Chunk(finish_reason=reason, usage=turn.usage or Usage(input_tokens=10, output_tokens=said))


def _pieces_of(turn: Turn) -> Iterator[Chunk]:
    for piece in words(turn.reasoning):
        yield Chunk(reasoning=piece)
    for piece in words(turn.text):
        yield Chunk(text=piece)
    for index, call in enumerate(turn.calls):
        call_id = call.id or f"call_{next(_call_numbers)}"
        yield Chunk(tools=[ToolDelta(index=index, id=call_id, name=call.name)])
        for start in range(0, len(call.text), PIECE_CHARS):
            yield Chunk(tools=[ToolDelta(index=index, arguments=call.text[start : start + PIECE_CHARS])])
