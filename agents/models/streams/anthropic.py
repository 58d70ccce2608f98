"""Anthropic's message stream, translated into OpenAI's format."""

from __future__ import annotations

from typing import Any

from agents.models.streams.chunk import Chunk, ToolDelta, Usage, finish_word
from agents.models.streams.wire import Wire, carried_error, count, load, words


class AnthropicWire(Wire):
    """Reads ``message_start`` to ``message_stop``.

    Anthropic numbers content blocks of all kinds together; tool calls get numbers of their own, from 0. A call
    without arguments is ``{}``, as LiteLLM reports it. Blocks of server-side tools are skipped.
    """

    def __init__(self) -> None:
        super().__init__()
        self._tool = -1
        self._kind = ""
        self._empty_arguments = False
        self._usage: dict[str, Any] = {}

    def event(self, data: bytes) -> Chunk | None:
        body = load(data)
        match body.get("type"):
            case "content_block_delta":
                return self._delta(body.get("delta") or {})
            case "content_block_start":
                return self._block_start(body.get("content_block") or {})
            case "content_block_stop":
                kind, self._kind = self._kind, ""
                if kind == "tool_use" and self._empty_arguments:
                    return Chunk(tools=[ToolDelta(index=self._tool, arguments="{}")])
            case "message_start":
                usage = (body.get("message") or {}).get("usage")
                return Chunk(usage=self._count(usage)) if usage else None
            case "message_delta":
                usage, reason = body.get("usage"), (body.get("delta") or {}).get("stop_reason")
                self.finished = self.finished or bool(reason)
                word = finish_word(str(reason)) if reason else None
                return Chunk(usage=self._count(usage) if usage else None, finish_reason=word)
            case "message_stop":
                self.finished = self.done = True
            case "error":
                raise carried_error(body.get("error") or body)
        return None

    def _delta(self, delta: dict[str, Any]) -> Chunk | None:
        text = words(delta.get("text"))
        if text:
            return Chunk(text)
        piece = words(delta.get("partial_json"))
        if piece:
            self._empty_arguments = False
            return Chunk(tools=[ToolDelta(index=self._tool, arguments=piece)]) if self._kind == "tool_use" else None
        thought, signature = words(delta.get("thinking")), words(delta.get("signature"))
        return Chunk("", thought, signature=signature) if thought or signature else None

    def _block_start(self, block: dict[str, Any]) -> Chunk | None:
        self._kind = str(block.get("type"))
        if self._kind == "text":
            return Chunk(words(block["text"])) if block.get("text") else None
        if self._kind == "thinking":
            return Chunk("", words(block["thinking"])) if block.get("thinking") else None
        if self._kind == "redacted_thinking":
            return Chunk(redacted=str(block.get("data") or ""))
        if self._kind != "tool_use":
            return None
        self._tool += 1
        self._empty_arguments = True
        call_id, name = words(block.get("id")) or None, words(block.get("name")) or None
        return Chunk(tools=[ToolDelta(index=self._tool, id=call_id, name=name)])

    def _count(self, usage: dict[str, Any]) -> Usage:
        """Return the counts so far; later events may leave out what the first one said."""
        self._usage.update({key: value for key, value in usage.items() if value is not None})
        raw_usage = self._usage
        cached = count(raw_usage.get("cache_read_input_tokens"))
        written = count(raw_usage.get("cache_creation_input_tokens"))
        spent = raw_usage.get("output_tokens_details") or {}
        return Usage(
            input_tokens=count(raw_usage.get("input_tokens")) + cached + written,
            output_tokens=count(raw_usage.get("output_tokens")),
            reasoning_tokens=count(spent.get("reasoning_tokens")) or count(spent.get("thinking_tokens")),
            cached_tokens=cached,
        )
