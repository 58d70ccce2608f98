"""Which streams we read ourselves: a feature test of what LiteLLM opened.

LiteLLM's own wrapper costs 200 to 300 microseconds a chunk and this path a few (docs/performance.md).
``completion_stream`` is no documented surface, so each family is named here, is covered by
tests/agents/models/test_parity.py, and falls back to the wrapper when anything looks different.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from agents.models.anthropic_wire import AnthropicWire
from agents.models.openai_wire import OpenAIWire
from agents.models.reader import ByteReader
from agents.models.wire import Wire
from config.settings import settings

if TYPE_CHECKING:
    import httpx

    from agents.models.call import ModelCall

SWITCH = "CALLBOARD_FAST_STREAM"
"""The setting's variable; in the environment it is read at each call."""

FAMILIES: Mapping[str, tuple[str, type[Wire]]] = MappingProxyType({
    "openai": ("AsyncStream", OpenAIWire),
    "azure": ("AsyncStream", OpenAIWire),
    "hosted_vllm": ("OpenAIChatCompletionStreamingHandler", OpenAIWire),
    "deepseek": ("OpenAIChatCompletionStreamingHandler", OpenAIWire),
    "groq": ("GroqChatCompletionStreamingHandler", OpenAIWire),
    "openrouter": ("OpenRouterChatCompletionStreamingHandler", OpenAIWire),
    "anthropic": ("ModelResponseIterator", AnthropicWire),
})  # fmt: skip
"""Provider: the class LiteLLM 1.106 reads it with, and our wire format."""


def fast_reader(stream_wrapper: Any, call: ModelCall) -> ByteReader | None:
    """Return a reader of the response's bytes, or None where LiteLLM's wrapper has to do it."""
    if os.environ.get(SWITCH, "1" if settings().fast_stream else "0") == "0":
        return None
    family = FAMILIES.get(str(getattr(stream_wrapper, "custom_llm_provider", "")))
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


def response_of(stream: Any) -> httpx.Response | None:
    """Return the HTTP response behind what LiteLLM opened, where it can be found.

    Some of its iterators hold only the generator ``response.aiter_lines()``; then the response is that
    generator's ``self``.
    """
    import httpx

    lines = getattr(stream, "streaming_response", None)
    frame = getattr(lines, "ag_frame", None)
    known = [getattr(stream, "response", None), getattr(stream, "http_response", None)]
    if frame is not None and frame.f_code.co_name == "aiter_lines":
        known.append(frame.f_locals.get("self"))
    return next((response for response in known if isinstance(response, httpx.Response)), None)
