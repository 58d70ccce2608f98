"""Translates providers' finish reasons into OpenAI's four."""

from __future__ import annotations

import logging

log = logging.getLogger(__name__)

_WORDS = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "content_filter": "content_filter",
    "function_call": "tool_calls",
    # Anthropic
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "compaction": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
    "content_filtered": "content_filter",
    # servers that speak OpenAI's wire with words of their own
    "eos": "stop",
    "eos_token": "stop",
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "SAFETY": "content_filter",
    "sensitive": "content_filter",
}


def finish_word(word: str) -> str:
    """Return stop, length, tool_calls or content_filter; an unknown word is ``stop``, as in LiteLLM."""
    known = _WORDS.get(word)
    if known is None:
        log.debug("met an unknown finish reason, taken as stop", extra={"finish_reason": word[:40]})
        return "stop"
    return known
