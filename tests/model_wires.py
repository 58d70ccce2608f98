"""The wires of the test model: how their paths differ, and the form of one answer on those of Gemini and Ollama."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import orjson

if TYPE_CHECKING:
    from tests.model_turn import Call, Turn

Dialect = Literal["openai", "anthropic", "gemini", "ollama"]
DIALECTS: Mapping[str, Dialect] = {
    "/chat/completions": "openai",
    "/messages": "anthropic",
    ":streamGenerateContent": "gemini",
    "/api/chat": "ollama",
}
"""By the end of the path."""
EMPTY: Mapping[Dialect, bytes] = {
    "openai": b'"delta":{"content":""',
    "anthropic": b'"text_delta","text":""',
    "gemini": b'{"parts":[{"text":""',
    "ollama": b'"content":""},"done":false',
}
"""The place for a stamp in a piece of text without words."""


def words(text: Sequence[str] | str) -> list[str]:
    """Return the pieces of ``text``: as they are, or a string cut behind each blank."""
    if not isinstance(text, str):
        return list(text)
    return [part for part in text.replace(" ", " \0").split("\0") if part]


def gemini(turn: Turn, model: str) -> Iterator[bytes]:
    """Yield the events of ``streamGenerateContent?alt=sse``: each counts the tokens so far, and none is an end mark."""
    parts: list[dict[str, Any]] = [{"text": piece, "thought": True} for piece in words(turn.reasoning)]
    parts += [{"text": piece} for piece in words(turn.text)]
    parts += [_function_call(call) for call in turn.calls]
    if turn.signature and turn.calls:
        parts[-len(turn.calls)]["thoughtSignature"] = turn.signature
    for at, part in enumerate(parts):
        usage = {"promptTokenCount": 10, "candidatesTokenCount": at + 1, "totalTokenCount": 11 + at}
        yield _gemini_event(turn, model, {"content": {"parts": [part], "role": "model"}, "index": 0}, usage)
    if turn.finish:
        usage = {"promptTokenCount": 10, "candidatesTokenCount": len(parts), "totalTokenCount": 10 + len(parts)}
        candidate = {
            "content": {"role": "model", "parts": [{"text": ""}]},
            "finishReason": turn.finish_reason or "STOP",
            "index": 0,
        }
        yield _gemini_event(turn, model, candidate, usage)


def _gemini_event(turn: Turn, model: str, candidate: Mapping[str, Any], usage: Mapping[str, Any]) -> bytes:
    counted = usage if turn.usage is None else turn.usage
    body = {"candidates": [candidate], "modelVersion": model, "responseId": "r1"}
    return b"data: " + orjson.dumps(body | ({"usageMetadata": counted} if counted else {})) + b"\n\n"


def _function_call(call: Call) -> dict[str, Any]:
    return {"functionCall": {"name": call.name, "args": json.loads(call.text)} | ({"id": call.id} if call.id else {})}


def ollama(turn: Turn, model: str) -> Iterator[bytes]:
    """Yield the lines of ``/api/chat``; the last one is done, and counts the tokens."""

    def line(message: Mapping[str, Any], **more: Any) -> bytes:
        reply = {"role": "assistant", "content": "", **message}
        head = {"model": model, "created_at": "2026-11-24T15:00:00.1Z", "message": reply}
        return orjson.dumps(head | ({"done": False} | more)) + b"\n"

    pieces: list[dict[str, Any]] = [{"thinking": piece} for piece in words(turn.reasoning)]
    pieces += [{"content": piece} for piece in words(turn.text)]
    pieces += [{"tool_calls": [{"function": _ollama_function(call)}]} for call in turn.calls]
    for piece in pieces:
        yield line(piece)
    if turn.finish:
        counted = {"prompt_eval_count": 10, "eval_count": len(pieces)} if turn.usage is None else turn.usage
        yield line({}, done=True, done_reason=turn.finish_reason or "stop", total_duration=9, **counted)


def _ollama_function(call: Call) -> dict[str, Any]:
    return {"name": call.name, "arguments": json.loads(call.text)}
