"""The demo model as LiteLLM's provider ``demo``: streams an answer word by word, like the real ones.

``demo/assistant`` speaks at a reading pace, ``demo/instant`` without any wait; ``params: {words_per_s: 60}``
sets another pace.
"""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.models.demo.answer import Answer, answer
from agents.models.demo.conversation import text_of

PROVIDER = "demo"
WORDS_PER_S = 25.0
"""How fast it speaks; thoughts come twice as fast."""
SLOW = 6
"""How many times slower "slowly" is."""
FIRST_WAIT_S = 0.12
"""Before the first word."""
_PIECE = re.compile(r"\S+\s*|\s+")
_VARIED = (0.55, 1.3, 0.8, 1.05, 1.6, 0.7, 1.0)
"""Steady words look mechanical."""
_MAX_REMEMBERED = 256


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """What is sent at once, and how long after the one before."""

    wait_s: float
    delta: Mapping[str, Any]
    finish_reason: str | None = None
    usage: tuple[int, int, int] | None = None
    """Tokens in, out, and of the latter those of thinking."""


class DemoModel:
    """Has the methods LiteLLM asks of a custom provider; one instance serves every thread and loop."""

    def __init__(self) -> None:
        self._failed: dict[str, None] = {}
        self._lock = threading.Lock()

    async def astreaming(
        self, model: str, messages: list[dict[str, Any]], optional_params: dict[str, Any], **_: Any
    ) -> AsyncIterator[Any]:
        """Yield the answer as chunks, with waits in between."""
        for piece in self._pieces(model, messages, optional_params):
            if piece.wait_s:
                await asyncio.sleep(piece.wait_s)
            yield _chunk(model, piece)

    def streaming(
        self, model: str, messages: list[dict[str, Any]], optional_params: dict[str, Any], **_: Any
    ) -> Iterator[Any]:
        """Yield the answer as chunks, with waits in between."""
        for piece in self._pieces(model, messages, optional_params):
            if piece.wait_s:
                time.sleep(piece.wait_s)
            yield _chunk(model, piece)

    async def acompletion(
        self, model: str, messages: list[dict[str, Any]], optional_params: dict[str, Any], **_: Any
    ) -> Any:
        """Return the whole answer at once."""
        return self.completion(model, messages, optional_params)

    def completion(self, model: str, messages: list[dict[str, Any]], optional_params: dict[str, Any], **_: Any) -> Any:
        """Return the whole answer at once."""
        from litellm.types.utils import ModelResponse, Usage

        whole = answer(messages, optional_params)
        self._fail_if_told(model, messages, whole, halfway=False)
        calls = [
            {"id": number, "type": "function", "function": {"name": name, "arguments": arguments}}
            for number, name, arguments in whole.calls
        ]
        message = {"role": "assistant", "content": whole.text or None, "reasoning_content": whole.reasoning or None}
        if calls:
            message["tool_calls"] = calls  # type: ignore[assignment]  # LiteLLM takes plain dicts
        taken, given, _thought = _usage(messages, whole)
        return ModelResponse(
            model=model,
            choices=[{"index": 0, "finish_reason": "tool_calls" if calls else "stop", "message": message}],
            usage=Usage(prompt_tokens=taken, completion_tokens=given, total_tokens=taken + given),
        )

    def _pieces(self, model: str, messages: Sequence[Mapping[str, Any]], options: Mapping[str, Any]) -> Iterator[Piece]:
        """Yield what to send; raises in the middle when the sentence asks for that."""
        whole = answer(messages, options)
        self._fail_if_told(model, messages, whole, halfway=False)
        pieces = list(_spoken(whole, _seconds_per_word(model, options, whole)))
        breaks = len(pieces) // 2 if whole.manner.failure in ("halfway", "once") else None
        for position, piece in enumerate(pieces):
            if position == breaks:
                self._fail_if_told(model, messages, whole, halfway=True)
            # LiteLLM's wrapper drops what comes after the finish, so the count travels with the last words.
            usage = _usage(messages, whole) if position == len(pieces) - 1 else None
            yield Piece(wait_s=piece.wait_s, delta=piece.delta, usage=usage)
        yield Piece(wait_s=0, delta={}, finish_reason="tool_calls" if whole.calls else "stop")

    def _fail_if_told(self, model: str, messages: Sequence[Mapping[str, Any]], whole: Answer, *, halfway: bool) -> None:
        failure = whole.manner.failure
        if failure is None or halfway is (failure in ("busy", "broken")):
            return
        if failure == "once" and not self._first_time(messages):
            return
        if failure in ("halfway", "once") and not halfway:
            return
        raise _failure(failure, model)

    def _first_time(self, messages: Sequence[Mapping[str, Any]]) -> bool:
        """Return whether these messages were not seen before; remembers a few."""
        key = repr([(message.get("role"), text_of(message)) for message in messages])
        with self._lock:
            known = key in self._failed
            self._failed[key] = None
            while len(self._failed) > _MAX_REMEMBERED:
                del self._failed[next(iter(self._failed))]
        return not known


def register_demo_model() -> None:
    """Make ``demo/...`` known to LiteLLM. Doing it again changes nothing."""
    import litellm
    from litellm.utils import custom_llm_setup

    if any(item["provider"] == PROVIDER for item in litellm.custom_provider_map):
        return
    litellm.custom_provider_map = [
        *litellm.custom_provider_map,
        {"provider": PROVIDER, "custom_handler": DemoModel()},
    ]
    custom_llm_setup()


def _failure(kind: str, model: str) -> Exception:
    import litellm

    wrong: Exception
    if kind == "busy":
        wrong = litellm.RateLimitError("the demo model was told to be busy", llm_provider=PROVIDER, model=model)
    elif kind == "broken":
        wrong = litellm.InternalServerError("the demo model was told to fail", llm_provider=PROVIDER, model=model)
    else:
        wrong = litellm.APIConnectionError("the demo model was told to break off", llm_provider=PROVIDER, model=model)
    return wrong


def _seconds_per_word(model: str, options: Mapping[str, Any], whole: Answer) -> float:
    pace = options.get("words_per_s", 0 if model.endswith("instant") else WORDS_PER_S)
    if not isinstance(pace, int | float) or pace <= 0:
        return 0.0
    return (SLOW if whole.manner.slow else 1) / pace


def _spoken(whole: Answer, per_word_s: float) -> Iterator[Piece]:
    first = FIRST_WAIT_S if per_word_s else 0.0
    for number, word in enumerate(_PIECE.findall(whole.reasoning)):
        yield Piece(wait_s=first + per_word_s / 2 * _VARIED[number % 7], delta={"reasoning_content": word})
        first = 0.0
    text = whole.text or ("" if whole.calls else " ")
    for number, word in enumerate(_PIECE.findall(text)):
        yield Piece(wait_s=first + per_word_s * _VARIED[number % 7], delta={"content": word})
        first = 0.0
    for index, (call_id, name, arguments) in enumerate(whole.calls):
        head = {"index": index, "id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}
        yield Piece(wait_s=per_word_s, delta={"tool_calls": [head]})
        for part in (arguments[at : at + 12] for at in range(0, len(arguments), 12)):
            delta = {"index": index, "function": {"arguments": part}}
            yield Piece(wait_s=per_word_s / 4, delta={"tool_calls": [delta]})


def _usage(messages: Sequence[Mapping[str, Any]], whole: Answer) -> tuple[int, int, int]:
    """Count words as tokens; the demo costs nothing, but the numbers should move."""
    taken = sum(len(_PIECE.findall(text_of(message))) for message in messages)
    thought = len(_PIECE.findall(whole.reasoning))
    called = sum(2 + len(arguments) // 4 for _, _, arguments in whole.calls)
    return taken, len(_PIECE.findall(whole.text)) + thought + called, thought


def _chunk(model: str, piece: Piece) -> Any:
    from litellm.types.utils import (
        CompletionTokensDetailsWrapper,
        Delta,
        ModelResponseStream,
        StreamingChoices,
        Usage,
    )

    choice = StreamingChoices(index=0, delta=Delta(**piece.delta), finish_reason=piece.finish_reason)
    chunk = ModelResponseStream(model=model, choices=[choice])
    if piece.usage is not None:
        taken, given, thought = piece.usage
        details = CompletionTokensDetailsWrapper(reasoning_tokens=thought, text_tokens=given - thought)
        chunk.usage = Usage(
            prompt_tokens=taken, completion_tokens=given, total_tokens=taken + given, completion_tokens_details=details
        )
    return chunk
