"""The demo model as a stream: it speaks an answer word by word, in this process, without LiteLLM.

``demo/assistant`` speaks as fast as most models, ``demo/instant`` without any wait; ``params: {words_per_s: 20}``
sets another pace.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agents.models.chunk import Chunk, ToolDelta, Usage
from agents.models.demo.answer import Answer, answer
from agents.models.demo.conversation import text_of
from config.errors import ModelFailed

if TYPE_CHECKING:
    from agents.models.call import ModelCall

WORDS_PER_S = 60.0
"""How fast it speaks; thoughts come twice as fast."""
SLOW = 15
"""How many times slower "slowly" is."""
FIRST_WAIT_S = 0.05
"""Before the first word."""
_PIECE = re.compile(r"\S+\s*|\s+")
_VARIED = (0.55, 1.3, 0.8, 1.05, 1.6, 0.7, 1.0)
"""Steady words look mechanical."""
_MAX_REMEMBERED = 256


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """What is sent at once, and how long after the piece before."""

    wait_s: float
    chunk: Chunk


class DemoReader:
    """Reads the answer to one call, a word at a time."""

    def __init__(self, call: ModelCall) -> None:
        self._pieces = pieces_of(call)
        self.finished = False
        self.done = False

    async def read(self) -> list[Chunk] | None:
        piece = next(self._pieces, None)
        if piece is None:
            return None
        await asyncio.sleep(piece.wait_s)
        self.finished = self.done = piece.chunk.finish_reason is not None
        return [piece.chunk]

    async def aclose(self) -> None:
        self._pieces.close()


def pieces_of(call: ModelCall) -> Generator[Piece]:
    """Yield what the answer to ``call`` is sent as.

    Raises:
        ModelFailed: the user told it to fail; halfway where that was asked for.
    """
    whole = answer(call)
    if whole.manner.failure in ("busy", "broken"):
        raise _failure(whole.manner.failure, call.model)
    spoken = list(_spoken(whole, _seconds_per_word(call, whole)))
    breaks = len(spoken) // 2 if _breaks_off(call, whole) else None
    for position, piece in enumerate(spoken):
        if position == breaks:
            raise _failure("halfway", call.model)
        yield piece
    reason = "tool_calls" if whole.calls else "stop"
    yield Piece(wait_s=0, chunk=Chunk(finish_reason=reason, usage=_usage(call.messages, whole)))


def _breaks_off(call: ModelCall, whole: Answer) -> bool:
    failure = whole.manner.failure
    return failure == "halfway" or (failure == "once" and _is_first_time(call.messages))


_failed: dict[str, None] = {}
"""Conversations that failed once already, in this process; the loop's thread alone reads and writes it."""


def _is_first_time(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether these messages were not seen before; remembers a few."""
    key = repr([(message.get("role"), text_of(message)) for message in messages])
    is_new = key not in _failed
    _failed[key] = None
    while len(_failed) > _MAX_REMEMBERED:
        del _failed[next(iter(_failed))]
    return is_new


def _failure(kind: str, model: str) -> ModelFailed:
    if kind == "busy":
        text = f"the provider of '{model}' asks to wait (HTTP 429): the demo model was told to be busy."
        return ModelFailed(text, model=model, provider_status=429)
    told = "fail" if kind == "broken" else "break off"
    return ModelFailed(f"the call of '{model}' failed: the demo model was told to {told}.", model=model)


def _seconds_per_word(call: ModelCall, whole: Answer) -> float:
    pace = call.params.get("words_per_s", 0 if call.model.endswith("instant") else WORDS_PER_S)
    if not isinstance(pace, int | float) or pace <= 0:
        return 0.0
    return (SLOW if whole.manner.slow else 1) / pace


def _spoken(whole: Answer, per_word_s: float) -> Iterator[Piece]:
    waits = _waits(per_word_s)
    for word in _PIECE.findall(whole.reasoning):
        yield Piece(wait_s=next(waits) / 2, chunk=Chunk(reasoning=word))
    for word in _PIECE.findall(whole.text):
        yield Piece(wait_s=next(waits), chunk=Chunk(text=word))
    for index, (call_id, name, arguments) in enumerate(whole.calls):
        head = ToolDelta(index=index, id=call_id, name=name)
        yield Piece(wait_s=per_word_s, chunk=Chunk(tools=[head]))
        for part in (arguments[at : at + 12] for at in range(0, len(arguments), 12)):
            yield Piece(wait_s=per_word_s / 4, chunk=Chunk(tools=[ToolDelta(index=index, arguments=part)]))


def _waits(per_word_s: float) -> Iterator[float]:
    """Yield the pauses before words: a longer one before the first."""
    yield FIRST_WAIT_S if per_word_s else 0.0
    while True:
        yield from (per_word_s * varied for varied in _VARIED)


def _usage(messages: Sequence[Mapping[str, Any]], whole: Answer) -> Usage:
    """Count words as tokens; the demo costs nothing, but the numbers should move."""
    taken = sum(len(_PIECE.findall(text_of(message))) for message in messages)
    thought = len(_PIECE.findall(whole.reasoning))
    called = sum(2 + len(arguments) // 4 for _, _, arguments in whole.calls)
    given = len(_PIECE.findall(whole.text)) + thought + called
    return Usage(input_tokens=taken, output_tokens=given, reasoning_tokens=thought)
