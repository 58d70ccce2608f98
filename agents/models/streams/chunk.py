"""One chunk of a model's stream, and its finish reason, independent of the provider."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolDelta:
    """A piece of one tool call; pieces of one call share ``index``."""

    index: int
    id: str | None = None
    name: str | None = None
    arguments: str = ""
    """The next piece of the arguments' JSON text."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """Tokens as the provider counted them."""

    input_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    cached_tokens: int = 0

    def as_dict(self) -> dict[str, int]:
        """Return the counts; those of special tokens only where there are any."""
        counts = {"input_tokens": self.input_tokens, "output_tokens": self.output_tokens}
        special = {"reasoning_tokens": self.reasoning_tokens, "cached_tokens": self.cached_tokens}
        return counts | {name: count for name, count in special.items() if count}


@dataclass(slots=True)
class Chunk:
    """A chunk. Mutable and without validation, since one is made for each token."""

    text: str = ""
    reasoning: str = ""
    tools: list[ToolDelta] = field(default_factory=list)
    finish_reason: str | None = None
    """stop, length, tool_calls or content_filter (OpenAI's words) for every provider."""
    usage: Usage | None = None
    signature: str = ""
    """Anthropic's signature of a thinking block; sent back unchanged with the history."""
    redacted: str = ""
    """Anthropic's encrypted thinking; sent back unchanged with the history."""


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
    "sensitive": "content_filter",
    # Gemini
    "STOP": "stop",
    "MAX_TOKENS": "length",
    **dict.fromkeys(
        """
        SAFETY RECITATION LANGUAGE OTHER BLOCKLIST PROHIBITED_CONTENT SPII ESCALATION
        NO_IMAGE IMAGE_SAFETY IMAGE_PROHIBITED_CONTENT IMAGE_RECITATION IMAGE_OTHER
        """.split(),
        "content_filter",
    ),
}


def finish_word(word: str) -> str:
    """Return stop, length, tool_calls or content_filter; an unknown word is ``stop``, as in LiteLLM."""
    finish_reason = _WORDS.get(word)
    if finish_reason is None:
        log.debug("met an unknown finish reason, taken as stop", extra={"finish_reason": word[:40]})
        return "stop"
    return finish_reason
