"""The wires that send each call of a tool whole, Gemini's and Ollama's, translated into OpenAI's format."""

from __future__ import annotations

from typing import Any

import orjson

from agents.models.streams.chunk import Chunk, ToolDelta, Usage, finish_word
from agents.models.streams.lines import ObjectLines
from agents.models.streams.wire import Wire, carried_error, count, load, words
from config.ids import new_id

_NOTHING = Chunk()
_SIGNED = "__thought__"
"""What LiteLLM puts between a call's id and its signature, which it sends back to Gemini with the history."""


class GeminiWire(Wire):
    """Reads ``data: {"candidates": [{"content": {"parts": [...]}}]}`` until the connection ends: there is no end mark.

    The mapping is LiteLLM's, but for the finish reason: LiteLLM reports ``stop`` with every piece, so that it takes an
    answer that was cut off for a whole one. The first candidate counts, and the last usage.
    """

    def __init__(self) -> None:
        super().__init__()
        self._calls = 0

    def event(self, data: bytes) -> Chunk | None:
        body = load(data)
        if body.get("error"):
            raise carried_error(body["error"])
        chunk = Chunk(usage=_gemini_usage(body["usageMetadata"]) if body.get("usageMetadata") else None)
        if (body.get("promptFeedback") or {}).get("blockReason"):
            self.finished, chunk.finish_reason = True, "content_filter"
        for candidate in (body.get("candidates") or ())[:1]:
            for part in (candidate.get("content") or {}).get("parts") or ():
                self._add(part, chunk)
            if candidate.get("finishReason"):
                self.finished = True
                chunk.finish_reason = self._reason(str(candidate["finishReason"]), chunk)
        return chunk if chunk != _NOTHING else None

    def _add(self, part: dict[str, Any], chunk: Chunk) -> None:
        if part.get("functionCall"):
            chunk.tools.append(self._call(part["functionCall"], words(part.get("thoughtSignature"))))
        elif part.get("thought") is True:
            chunk.reasoning += words(part.get("text"))
        else:
            chunk.text += words(part.get("text"))

    def _call(self, function: dict[str, Any], signature: str) -> ToolDelta:
        """Return a call, which Gemini sends whole; without an id of its own unless the model gives one."""
        call_id = words(function.get("id")) or None
        if signature:
            call_id = f"{call_id or new_id('call')}{_SIGNED}{signature}"
        arguments = orjson.dumps(function.get("args") or {}).decode()
        self._calls += 1
        return ToolDelta(
            index=self._calls - 1, id=call_id, name=words(function.get("name")) or None, arguments=arguments
        )

    def _reason(self, word: str, chunk: Chunk) -> str:
        """Return the finish reason; Gemini says ``STOP`` behind calls, too."""
        reason = finish_word(word)
        return "tool_calls" if chunk.tools or (self._calls and reason == "stop") else reason


def _gemini_usage(usage: dict[str, Any]) -> Usage:
    """Return the counts so far; thinking is part of the answer's tokens, which some versions count apart."""
    prompt, answer = count(usage.get("promptTokenCount")), count(usage.get("candidatesTokenCount"))
    thinking, by_tools = count(usage.get("thoughtsTokenCount")), count(usage.get("toolUsePromptTokenCount"))
    is_apart = prompt + answer + by_tools != count(usage.get("totalTokenCount"))
    return Usage(
        input_tokens=prompt + by_tools,
        output_tokens=answer + (thinking if is_apart else 0),
        reasoning_tokens=thinking,
        cached_tokens=count(usage.get("cachedContentTokenCount")),
    )


class OllamaWire(Wire):
    """Reads lines of ``{"message": ..., "done": false}`` until one is done.

    Thinking is what Ollama sends as thinking; tags such as ``<think>`` inside the text stay there, as on OpenAI's wire.
    """

    lines = ObjectLines

    def __init__(self) -> None:
        super().__init__()
        self._calls = 0

    def event(self, data: bytes) -> Chunk | None:
        body = load(data)
        if body.get("error"):
            raise carried_error(body["error"])
        message = body.get("message") or {}
        chunk = Chunk(words(message.get("content")), words(message.get("thinking")))
        for call in message.get("tool_calls") or ():
            chunk.tools.append(self._call(call))
        if body.get("done"):
            self.finished = self.done = True
            chunk.finish_reason = "tool_calls" if self._calls else finish_word(str(body.get("done_reason") or "stop"))
            chunk.usage = _ollama_usage(body)
        return chunk if chunk != _NOTHING else None

    def _call(self, call: dict[str, Any]) -> ToolDelta:
        """Return a call, which Ollama sends whole."""
        function = call.get("function") or {}
        arguments = function.get("arguments")
        if not isinstance(arguments, str):
            arguments = orjson.dumps(arguments or {}).decode()
        self._calls += 1
        return ToolDelta(
            index=self._calls - 1,
            id=words(call.get("id")) or None,
            name=words(function.get("name")) or None,
            arguments=arguments,
        )


def _ollama_usage(body: dict[str, Any]) -> Usage | None:
    """Return the tokens of the last line; None where it does not count both, as for LiteLLM."""
    prompt, answer = body.get("prompt_eval_count"), body.get("eval_count")
    if not isinstance(prompt, int) or not isinstance(answer, int):
        return None
    return Usage(input_tokens=count(prompt), output_tokens=count(answer))
