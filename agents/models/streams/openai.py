"""OpenAI's chat-completions stream, as OpenAI and compatible servers send it."""

from __future__ import annotations

from typing import Any

import orjson

from agents.models.errors import ModelFailed
from agents.models.streams.chunk import Chunk, ToolDelta, Usage, finish_word
from agents.models.streams.wire import Wire, carried_error, count, load, words


class OpenAIWire(Wire):
    """Reads ``data: {"choices": [{"delta": ...}]}`` until ``data: [DONE]``.

    The mapping is LiteLLM's: ``reasoning`` is ``reasoning_content``, the first choice counts, the last
    usage counts; tags such as ``<think>`` inside the text stay there, as LiteLLM leaves them.
    """

    def __init__(self) -> None:
        super().__init__()
        self._calls: dict[str, int] = {}
        self._last_index = 0

    def event(self, data: bytes) -> Chunk | None:
        if data[:6] == b"[DONE]":
            self.finished = self.done = True
            return None
        body = load(data)
        if body.get("error"):
            raise carried_error(body["error"])
        return self.chunk_of(body)

    def chunk_of(self, body: dict[str, Any]) -> Chunk | None:
        """Return the chunk of one decoded event, or None where it has nothing new."""
        choices = body.get("choices")
        usage = body.get("usage")
        if not choices:
            return Chunk(usage=usage_of(usage)) if usage else None
        choice = choices[0]
        delta = choice.get("delta") or {}
        chunk = Chunk(_text(delta.get("content")), _text(delta.get("reasoning_content") or delta.get("reasoning")))
        if delta.get("tool_calls"):
            chunk.tools = self._tools(delta["tool_calls"])
        if delta.get("refusal"):
            chunk.text += _text(delta["refusal"])
        if choice.get("finish_reason"):
            if choice["finish_reason"] == "error":
                raise ModelFailed("the provider broke off its answer: finish reason 'error'.")
            self.finished = True
            chunk.finish_reason = finish_word(str(choice["finish_reason"]))
        if usage:
            chunk.usage = usage_of(usage)
        elif not (chunk.text or chunk.reasoning or chunk.tools or chunk.finish_reason):
            return None
        return chunk

    def _tools(self, pieces: list[dict[str, Any]]) -> list[ToolDelta]:
        deltas = []
        for position, piece in enumerate(pieces):
            function = piece.get("function") or {}
            arguments = function.get("arguments")
            if not isinstance(arguments, str):  # some servers send an object
                arguments = "" if arguments is None else orjson.dumps(arguments).decode()
            deltas.append(
                ToolDelta(
                    index=self._index(piece, position),
                    id=words(piece.get("id")) or None,
                    name=words(function.get("name")) or None,
                    arguments=arguments,
                )
            )
        return deltas

    def _index(self, piece: dict[str, Any], position: int) -> int:
        """Return the piece's index; without an index, a new id begins a call, and no id continues the last call."""
        index = piece.get("index")
        if isinstance(index, int):
            self._last_index = index
            return index
        call_id = words(piece.get("id"))
        if call_id:
            self._last_index = self._calls.setdefault(call_id, len(self._calls))
        elif (piece.get("function") or {}).get("name"):
            self._last_index = max(position, self._last_index + 1 if self._calls else position)
            self._calls[f"#{self._last_index}"] = self._last_index
        return self._last_index


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str))
    return ""


def usage_of(usage: Any) -> Usage | None:
    """Return the tokens that a decoded ``usage`` counts."""
    if not isinstance(usage, dict):
        return None
    spent = usage.get("completion_tokens_details") or {}
    prompt_details = usage.get("prompt_tokens_details") or {}
    return Usage(
        input_tokens=count(usage.get("prompt_tokens")),
        output_tokens=count(usage.get("completion_tokens")),
        reasoning_tokens=count(spent.get("reasoning_tokens")),
        cached_tokens=count(prompt_details.get("cached_tokens")) or count(usage.get("prompt_cache_hit_tokens")),
    )
