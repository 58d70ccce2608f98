"""Checks a provider's name against LiteLLM's files without importing LiteLLM, which takes seconds."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from agents.models.errors import MODEL_UNKNOWN
from config.definitions.agent import AgentDefinition
from config.errors import Permanent

LISTS = (
    "types/utils.py",
    "litellm_core_utils/get_llm_provider_logic.py",
    "llms/openai_like/providers.json",
    "model_prices_and_context_window_backup.json",
)
"""LiteLLM's files that name its providers and models."""
AZURE_ADDRESSES = ("AZURE_API_BASE", "AZURE_OPENAI_ENDPOINT")
"""The variables of which one may have the address of Azure's models."""


def require_possible_provider(definition: AgentDefinition, model: str) -> None:
    """Check that LiteLLM may know the provider before the model's slash; in doubt LiteLLM decides later.

    Raises:
        MODEL_UNKNOWN: no file of LiteLLM has the word, so every run of this agent would fail.
    """
    provider, slash, name = model.partition("/")
    if not slash or not provider or ":" in name or definition.api_base is not None:  # `:` as in Replicate's versions
        return
    if not _is_named(provider):
        raise unknown_provider(model)


def lacks_address(model: str, api_base: str | None, environment: Mapping[str, str]) -> bool:
    """Return whether nothing says where the model is: Azure's have an address for each customer."""
    if not model.startswith("azure/") or api_base is not None:
        return False
    return not any(environment.get(name, "").strip() for name in AZURE_ADDRESSES)


def unknown_provider(model: str) -> Permanent:
    """Return the error for a model with an unknown provider."""
    return MODEL_UNKNOWN(
        f"model '{model}' names no provider LiteLLM knows; write it as provider/model, "
        "for example openai/gpt-5-mini, anthropic/claude-sonnet-4-5 or demo/assistant.",
        model=model,
    )


def _is_named(provider: str) -> bool:
    """Return whether one of the files has the word, also within another word; True where a file is missing."""
    spec = find_spec("litellm")
    if spec is None or spec.origin is None:
        return True
    try:
        return any(provider in (Path(spec.origin).parent / name).read_text() for name in LISTS)
    except (OSError, UnicodeDecodeError):
        return True
