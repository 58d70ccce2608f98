"""One model call: model, messages, tools, parameters, address and timeouts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from config.definitions.model_fields import Timeouts
from config.effects import Effect

IN_PROCESS = ("demo", "scripted")
"""The providers that ship: their models answer in the process itself, without LiteLLM."""

PROMPT_VALIDATION = "prompt_validation"
"""The name of the schema by which a model is asked to check what a user wrote; the demo model knows it."""


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
    """The effect of each tool; one that is not named is ``unsafe``. Sent to no provider; the demo model reads it."""
    starters: Sequence[str] = ()
    """The agent's example sentences. Sent to no provider; the demo model reads it."""
    is_summary: bool = False
    """Whether it asks for a summary of a conversation. Sent to no provider; the demo model reads it."""
    tool_choice: Any = None
    """``auto``, ``none``, ``required`` or one function; None leaves it to the provider."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """Sampling and other parameters; those that the model does not support are dropped."""
    response_format: Any = None
    """OpenAI's ``response_format`` for structured output."""
    api_base: str | None = None
    """An address instead of the provider's. No key of the environment is sent there unless ``api_key_env`` is set."""
    api_key_env: str | None = None
    """The variable that holds the key; None takes the provider's usual one."""
    timeouts: Timeouts = field(default_factory=Timeouts)
    max_output_chars: int = 4_000_000
    """Longest answer, thinking and tool arguments included; a longer one fails."""

    @property
    def api_key(self) -> str | None:
        """The key, or None when no variable is named or it is empty."""
        return (os.environ.get(self.api_key_env) or None) if self.api_key_env else None

    @property
    def address(self) -> str:
        """The provider or address, as errors name it."""
        return address_of(self.api_base, self.model)


def is_in_process(model: str) -> bool:
    """Return whether a call of this model is answered in this process."""
    return model.partition("/")[0] in IN_PROCESS


def address_of(url: str | None, model: str) -> str:
    """Return scheme, host and path without credentials or query, or the provider's name where there is no URL."""
    if not url:
        return f"the provider '{model.partition('/')[0]}'"
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return url.partition("?")[0][:80]
    return f"{parts.scheme}://{parts.hostname}{port}{parts.path}" if parts.hostname else url[:80]


# --- the requests that belong to a call


_is_on: ContextVar[bool] = ContextVar("callboard_provider_call", default=False)


@contextmanager
def provider_call() -> Iterator[None]:
    """Mark the requests of this task, and of the tasks that it starts, as part of a provider's call."""
    token = _is_on.set(True)
    try:
        yield
    finally:
        _is_on.reset(token)


def in_provider_call() -> bool:
    """Return whether a request made now belongs to a provider's call."""
    return _is_on.get()
