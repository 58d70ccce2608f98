"""What a definition says of its models: addresses, keys, timeouts, fallbacks, and when long threads are summarised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from config.egress.errors import UrlRefused
from config.egress.target import parse_target
from config.text.visible import first_hidden

_REMEDIES = {
    "write it as the agent's `model:`": "model",
    "they are the thread's": "messages",
    "every answer is streamed": "stream stream_options",
    "a message has one answer": "n",
    "write them as the agent's `tools:`": "tools functions",
    "write it as the agent's `output_schema:`": "response_format",
    "write it under `timeouts:`": "timeout request_timeout stream_timeout",
    "Callboard tries again itself": "max_retries num_retries retry_policy",
    "list the other models as the agent's `fallbacks:`": "fallbacks context_window_fallback_dict model_list",
    "name the variable that holds it as `api_key_env:`": "api_key",
    "write it as the agent's `api_base:`": "api_base base_url",
    "write it before the slash of `model:`": "custom_llm_provider",
    "use `model: demo/assistant`": "mock_response mock_tool_calls",
    "clients are made by the worker": "client",
    "calls are made by the worker": "acompletion",
    "it is the run's": "metadata",
}
OURS = {name: remedy for remedy, names in _REMEDIES.items() for name in names.split()}
"""Parameters of LiteLLM that are Callboard's to set, and what to write instead."""

Seconds = Annotated[float, Field(strict=True, gt=0, le=86_400)]
Text = Annotated[str, Field(min_length=1)]


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)


class Timeouts(Section):
    """Limits of durations, in seconds."""

    connect_s: Seconds = 5
    """Until the connection to the provider is open."""
    first_token_s: Seconds = 60
    """Until the first piece of an answer."""
    between_chunks_s: Seconds = 30
    """Between two pieces of an answer."""
    total_s: Seconds = 600
    """One model call."""
    tool_s: Seconds = 60
    """One tool call, unless the tool or an override says otherwise."""


def _is_address(value: str | None) -> str | None:
    if value is None:
        return None
    parts = urlsplit(value)
    if parts.username or parts.password:
        raise ValueError("may not hold a password; name the variable that holds the key as `api_key_env:`")
    try:
        parse_target(value)
    except UrlRefused as error:
        problem = str(error).rstrip(".")
        raise ValueError(f"has to be an address like http://127.0.0.1:9000/v1: {problem}") from error
    return value


Address = Annotated[str | None, AfterValidator(_is_address)]
Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")]


class Fallback(Section):
    """A model that is asked when those before it cannot answer: its name, or a mapping."""

    model: Text
    """A LiteLLM model."""
    api_base: Address = None
    """Address of its provider, if not the usual one."""
    api_key_env: Variable | None = None
    """Name of the environment variable that holds its key, where it is not the provider's own."""

    @model_validator(mode="before")
    @classmethod
    def _may_be_its_name(cls, value: Any) -> Any:
        return {"model": value} if isinstance(value, str) else value


def require_others(fallbacks: Sequence[Fallback], own: tuple[Any, ...]) -> None:
    """Check that each fallback is another model than those before it; ``own`` has the agent's model, address and key.

    Raises:
        ValueError: one is not.
    """
    before = [own]
    for number, fallback in enumerate(fallbacks, 1):
        target = (fallback.model, fallback.api_base, fallback.api_key_env)
        if fallback.model == "auto":
            raise ValueError(f"number {number} is `auto`, which may be any model; write provider/model")
        if target in before:
            problem = "the agent's own model" if target == own else "listed twice"
            raise ValueError(f"number {number}, '{fallback.model}', is {problem}; leave it out, or name another model")
        before.append(target)


def _can_begin_a_line(value: str) -> str:
    if ":" in value or value != value.strip() or first_hidden(value.replace("\n", "\0")) is not None:
        raise ValueError("has to be the name of a fact, without ':', hidden characters, line ends and blanks around it")
    return value


_FactName = Annotated[str, Field(min_length=1, max_length=80), AfterValidator(_can_begin_a_line)]


class Compaction(Section):
    """When a thread that has grown long is summarised, and what each summary keeps word for word."""

    enabled: Annotated[bool, Field(strict=True)] = True
    """Whether it is, and whether summaries that are there are used."""
    at: Annotated[float, Field(strict=True, ge=0.1, le=1)] = 0.7
    """From which share of what the model can be shown on."""
    turns: Annotated[int, Field(strict=True, ge=4, le=100_000)] = 250
    """From how many turns on that no summary replaces."""
    pinned: Annotated[tuple[_FactName, ...], Field(max_length=20)] = ()
    """Names of facts that each summary has word for word, where the conversation has them."""
