"""The stream of an answer that is known beforehand, of the scripted model and the demo model."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING

from agents.models.errors import MODEL_REFUSED
from agents.models.scripted.script import MODELS, Turn, words
from agents.models.streams.chunk import Chunk, ToolDelta, Usage

if TYPE_CHECKING:
    from agents.models.call import ModelCall
    from agents.models.streams.reader import ChunkReader

PIECE_CHARS = 8
"""Characters of a call's arguments in one chunk."""
_call_numbers = count(1)


class TurnReader:
    """Reads one turn, a chunk at a time."""

    def __init__(self, turn: Turn) -> None:
        pieces = list(_pieces_of(turn))
        reason = turn.finish_reason or ("tool_calls" if turn.calls else "stop")
        usage = turn.usage or Usage(input_tokens=10, output_tokens=len(pieces))
        self.turn = turn
        self.chunks = [*pieces, Chunk(finish_reason=reason, usage=usage)]
        self.sent = 0
        self.finished = False
        self.done = False

    async def read(self) -> list[Chunk] | None:
        if self.turn.error is not None and self.sent == self.turn.error_after:
            raise self.turn.error
        chunk = self.chunks[self.sent] if self.sent < len(self.chunks) else None
        await self.pause(chunk)
        if chunk is None:
            return None
        self.sent += 1
        self.finished = self.done = chunk.finish_reason is not None
        return [chunk]

    async def pause(self, chunk: Chunk | None) -> None:
        """Let time pass before a chunk, or before the end; other tasks run meanwhile, as with a socket."""
        await asyncio.sleep(0)

    async def aclose(self) -> None:
        """Do nothing: there is no connection."""


class ScriptedReader(TurnReader):
    """Reads what a scripted model of this process answers."""

    def __init__(self, call: ModelCall) -> None:
        model = MODELS.get(call.model)
        if model is None:
            raise MODEL_REFUSED(
                f"there is no model '{call.model}' in this process: a scripted model is made by a test "
                "(docs/testing.md)."
            )
        self._model = model
        super().__init__(model.take(call))
        if self.turn.error is not None and not self.turn.error_after:
            raise self.turn.error

    async def pause(self, chunk: Chunk | None) -> None:
        if self.sent == self.turn.stall_after:
            await self._model.stall()
        await super().pause(chunk)

    async def aclose(self) -> None:
        if not self.finished:
            self._model.closed_early.set()


async def open_script(call: ModelCall) -> ChunkReader:
    """Return the answer of this process's script, or with an ``api_base``, of the script served there."""
    if call.api_base is None:
        return ScriptedReader(call)
    from agents.models.scripted.served import open_served  # imports httpx

    return await open_served(call)


def _pieces_of(turn: Turn) -> Iterator[Chunk]:
    for piece in words(turn.reasoning):
        yield Chunk(reasoning=piece)
    for piece in words(turn.text):
        yield Chunk(text=piece)
    for index, call in enumerate(turn.calls):
        call_id = call.id or f"call_{next(_call_numbers)}"
        yield Chunk(tools=[ToolDelta(index=index, id=call_id, name=call.name)])
        text = call.text  # encoded anew each time that it is asked for
        for start in range(0, len(text), PIECE_CHARS):
            yield Chunk(tools=[ToolDelta(index=index, arguments=text[start : start + PIECE_CHARS])])
