"""The demo model as a stream: it sends an answer word by word, in this process, without LiteLLM.

``demo/assistant`` speaks as fast as most models, ``demo/instant`` without any wait; ``params: {words_per_s: 20}``
sets another pace.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Generator, Iterator
from functools import lru_cache
from itertools import count, cycle
from typing import TYPE_CHECKING

from agents.models.demo.answer import DemoAnswer, answer, text_of
from agents.models.errors import ModelFailed
from agents.models.streams.chunk import Chunk, ToolDelta, Usage

if TYPE_CHECKING:
    from agents.models.call import ModelCall

WORDS_PER_S = 90.0
"""How fast it speaks; thoughts come twice as fast."""
SLOW = 15
"""How many times slower "slowly" is."""
_PIECE = re.compile(r"\S+\s*|\s+")
_VARIED = (0.55, 1.3, 0.8, 1.05, 1.6, 0.7, 1.0)
"""Steady words look mechanical."""

Piece = tuple[float, Chunk]
"""What is sent at once, behind how many seconds to wait before it."""


class DemoReader:
    """Reads the answer to one call, a word at a time."""

    def __init__(self, call: ModelCall) -> None:
        self._pieces = pieces_of(call)
        self.finished = False
        self.done = False

    async def read(self) -> list[Chunk] | None:
        wait_s, chunk = next(self._pieces, (0, None))
        if chunk is None:
            return None
        await asyncio.sleep(wait_s)
        self.finished = self.done = chunk.finish_reason is not None
        return [chunk]

    async def aclose(self) -> None:
        self._pieces.close()


def pieces_of(call: ModelCall) -> Generator[Piece]:
    """Yield what the answer to ``call`` is sent as.

    Raises:
        ModelFailed: the user asked it to fail, at once or halfway.
    """
    whole = answer(call)
    spoken = list(_spoken(whole, _seconds_per_word(call, whole)))
    fails_at = len(spoken) // 2 if whole.failure == "halfway" else 0
    is_failing = whole.failure is not None and (whole.failure != "once" or next(_attempts(repr(call.messages))) == 0)
    for position, piece in enumerate(spoken):
        if is_failing and position == fails_at:
            raise ModelFailed(f"the call of '{call.model}' failed: the demo model was asked to fail.", model=call.model)
        yield piece
    words_in = sum(len(_PIECE.findall(text_of(message))) for message in call.messages)
    thoughts = sum(chunk.reasoning != "" for _, chunk in spoken)
    usage = Usage(input_tokens=words_in, output_tokens=len(spoken), reasoning_tokens=thoughts)
    yield 0, Chunk(finish_reason="tool_calls" if whole.calls else "stop", usage=usage)


@lru_cache(maxsize=256)
def _attempts(_messages: str) -> Iterator[int]:
    """Return the counter of the attempts to answer these messages in this process."""
    return count()


def _seconds_per_word(call: ModelCall, whole: DemoAnswer) -> float:
    pace = call.params.get("words_per_s", 0 if call.model.endswith("instant") else WORDS_PER_S)
    if not isinstance(pace, int | float) or pace <= 0:
        return 0.0
    return (SLOW if whole.is_slow else 1) / pace


def _spoken(whole: DemoAnswer, per_word_s: float) -> Iterator[Piece]:
    waits = cycle(per_word_s * varied for varied in _VARIED)
    for word in _PIECE.findall(whole.reasoning):
        yield next(waits) / 2, Chunk(reasoning=word)
    for word in _PIECE.findall(whole.text):
        yield next(waits), Chunk(text=word)
    for index, (call_id, name, arguments) in enumerate(whole.calls):
        yield per_word_s, Chunk(tools=[ToolDelta(index=index, id=call_id, name=name)])
        for start in range(0, len(arguments), 12):
            yield per_word_s / 4, Chunk(tools=[ToolDelta(index=index, arguments=arguments[start : start + 12])])
