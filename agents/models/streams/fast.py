"""The fast path: chooses a Callboard reader for streams that LiteLLM opened, where it recognises their format.

LiteLLM's own wrapper takes 200 to 300 µs per chunk, and these readers a few (docs/performance.md).
``completion_stream`` is not a documented interface, so each provider is listed here and covered by
tests/agents/models/test_parity.py; anything unexpected falls back to the wrapper.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agents.models.streams.anthropic import AnthropicWire
from agents.models.streams.openai import OpenAIWire
from agents.models.streams.reader import ByteReader
from agents.models.streams.whole_calls import GeminiWire, OllamaWire
from agents.models.streams.wire import Wire
from config.settings import settings

if TYPE_CHECKING:
    import httpx

    from agents.models.call import ModelCall


SWITCH = "CALLBOARD_FAST_STREAM"
"""The setting's variable; in the environment it is read at each call."""

FAMILIES: Mapping[str, tuple[str, type[Wire]]] = {
    "openai": ("AsyncStream", OpenAIWire),
    "azure": ("AsyncStream", OpenAIWire),
    "hosted_vllm": ("OpenAIChatCompletionStreamingHandler", OpenAIWire),
    "deepseek": ("OpenAIChatCompletionStreamingHandler", OpenAIWire),
    "groq": ("GroqChatCompletionStreamingHandler", OpenAIWire),
    "openrouter": ("OpenRouterChatCompletionStreamingHandler", OpenAIWire),
    "anthropic": ("ModelResponseIterator", AnthropicWire),
    "gemini": ("ModelResponseIterator", GeminiWire),
    "ollama_chat": ("OllamaChatCompletionResponseIterator", OllamaWire),
}
"""By provider: the class with which LiteLLM 1.106 reads it, and Callboard's wire format."""
_GEMINI = "vertex_ai_beta"
"""What LiteLLM's wrapper calls the provider of every stream of Gemini, also of one from Google AI Studio."""


def fast_reader(stream_wrapper: Any, call: ModelCall) -> ByteReader | None:
    """Return a reader of the response's bytes, or None where LiteLLM's wrapper has to be used."""
    if os.environ.get(SWITCH, "1" if settings().fast_stream else "0") == "0":
        return None
    provider = str(getattr(stream_wrapper, "custom_llm_provider", ""))
    family = FAMILIES.get("gemini" if provider == _GEMINI else provider)
    stream = getattr(stream_wrapper, "completion_stream", None)
    if family is None or stream is None or type(stream).__name__ != family[0]:
        return None
    if getattr(stream_wrapper, "merge_reasoning_content_in_choices", False):
        return None
    if getattr(stream, "json_mode", False) or getattr(stream, "tool_name_reverse_map", None):
        return None
    response = response_of(stream)
    if response is None or response.is_closed or response.is_stream_consumed:
        return None
    return ByteReader(response, family[1](), stream_wrapper, call)


def sends_no_thinking_blocks(model: str) -> bool:
    """Return whether the model's provider has a wire here that knows no signed thinking, so that it takes none back."""
    family = FAMILIES.get(model.partition("/")[0])
    return family is not None and family[1] is not AnthropicWire


def response_of(stream: Any) -> httpx.Response | None:
    """Return the HTTP response of a stream that LiteLLM opened, or None where it cannot be found.

    Some of LiteLLM's iterators have only the generator ``response.aiter_lines()``; then the response is that
    generator's ``self``.
    """
    import httpx

    lines = getattr(stream, "streaming_response", None)
    frame = getattr(lines, "ag_frame", None)
    candidates = [getattr(stream, "response", None), getattr(stream, "http_response", None)]
    if frame is not None and frame.f_code.co_name == "aiter_lines":
        candidates.append(frame.f_locals.get("self"))
    return next((response for response in candidates if isinstance(response, httpx.Response)), None)
