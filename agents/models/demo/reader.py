"""The demo model as a stream: it sends an answer word by word, in this process, without LiteLLM.

``demo/assistant`` speaks as fast as most models, ``demo/instant`` without any wait; ``params: {words_per_s: 20}``
sets another pace.
"""

from __future__ import annotations

import asyncio
from itertools import cycle
from typing import TYPE_CHECKING

from agents.models.demo.answer import answer, text_of
from agents.models.scripted.reader import TurnReader
from agents.models.streams.chunk import Chunk, Usage

if TYPE_CHECKING:
    from agents.models.call import ModelCall

WORDS_PER_S = 90.0
"""How fast it speaks; thoughts come twice as fast, and pieces of a call six times."""
SLOW = 15
"""How many times slower "slowly" is."""
_VARIED = (0.55, 1.3, 0.8, 1.05, 1.6, 0.7, 1.0)
"""Steady words look mechanical."""


class DemoReader(TurnReader):
    """Reads the answer to one call, a word at a time."""

    def __init__(self, call: ModelCall) -> None:
        turn = answer(call)
        super().__init__(turn)
        *pieces, last = self.chunks
        last.usage = Usage(
            input_tokens=sum(len(text_of(message).split()) for message in call.messages),
            output_tokens=len(pieces),
            reasoning_tokens=sum(piece.reasoning != "" for piece in pieces),
        )
        pace = call.params.get("words_per_s", 0 if call.model.endswith("instant") else WORDS_PER_S)
        sentence = next((text_of(each) for each in reversed(call.messages) if each.get("role") == "user"), "")
        is_slow = "slow" in sentence.lower() and not turn.calls
        is_paced = isinstance(pace, int | float) and pace > 0
        self._per_word_s = (SLOW if is_slow else 1) / pace if is_paced else 0.0
        self._varied = cycle(_VARIED)

    async def pause(self, chunk: Chunk | None) -> None:
        await asyncio.sleep(self.seconds_before(chunk) if chunk else 0)

    def seconds_before(self, chunk: Chunk) -> float:
        if chunk.tools:
            return self._per_word_s / 6
        if not (chunk.text or chunk.reasoning):
            return 0
        return next(self._varied) * self._per_word_s / (2 if chunk.reasoning else 1)
