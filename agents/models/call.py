"""One call of a model: what is asked, of whom, and how long it may take."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agents.models.address import address_of
from agents.tools.tool import Effect


@dataclass(frozen=True, kw_only=True, slots=True)
class Timeouts:
    """How long each part of a call may take, in seconds."""

    connect_s: float = 5.0
    """To reach the provider."""
    first_token_s: float = 60.0
    """From the call to the first piece of text, thinking or tool call; keep-alive signals do not count."""
    between_chunks_s: float = 30.0
    """Without a sign of life once the answer has begun; keep-alive signals count."""
    total_s: float = 600.0
    """The whole call, however lively."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelCall:
    """Everything ``open_stream`` needs."""

    model: str
    """A LiteLLM model, ``provider/name``."""
    messages: Sequence[Mapping[str, Any]]
    """The history in OpenAI's form."""
    tools: Sequence[Mapping[str, Any]] | None = None
    """The tools on offer, in OpenAI's form."""
    effects: Mapping[str, Effect] = field(default_factory=dict)
    """What calling each tool does; one that is not named is ``unsafe``. No provider is told: for the demo model."""
    starters: Sequence[str] = ()
    """Sentences the agent offers to begin with. No provider is told: for the demo model."""
    tool_choice: Any = None
    """``auto``, ``none``, ``required`` or one function; None leaves it to the provider."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """Sampling and other parameters; what the model does not know is dropped."""
    response_format: Any = None
    """OpenAI's ``response_format`` for structured output."""
    api_base: str | None = None
    """Another address than the provider's own. Keys of the environment do not travel there by themselves."""
    api_key_env: str | None = None
    """The variable that holds the key; None takes the provider's usual one."""
    timeouts: Timeouts = Timeouts()
    max_output_chars: int = 4_000_000
    """Where an answer that does not end is cut off, thinking and tool arguments included."""

    @property
    def api_key(self) -> str | None:
        """The key, or None when no variable is named or it is empty."""
        return (os.environ.get(self.api_key_env) or None) if self.api_key_env else None

    @property
    def address(self) -> str:
        """How to speak of the other end in a sentence."""
        return address_of(self.api_base, self.model)
