"""What LiteLLM's own list knows of a model: tools, streaming, a schema of the answer. No provider is asked.

A model that the list lacks, or that is at an address of its own, passes: the list does not know it.
"""

from __future__ import annotations

import logging
from collections import ChainMap
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from agents.models.call import is_in_process
from agents.models.fallbacks import Models
from agents.models.lite import is_imported, litellm_module
from config.definitions.agent import AgentDefinition
from config.definitions.model_fields import Fallback

log = logging.getLogger(__name__)

_OTHER_MODES = frozenset(
    "embedding rerank moderation audio_transcription audio_speech video_generation image_edit ocr search".split()
)
"""What LiteLLM's list calls models that answer no messages. Some that it lists for images do."""
_TAKE_SCHEMAS = frozenset("ollama ollama_chat predibase fireworks_ai lm_studio nebius databricks".split())
"""Providers that take a schema for each of their models, which the list does not say of each."""


def has_schema_mode(model: str, api_base: str | None) -> bool:
    """Return whether the provider takes the schema of an answer; also where that is not known."""
    entry = _listed(model) if api_base is None else None
    if entry is None or entry["provider"] in _TAKE_SCHEMAS:
        return True
    return bool(litellm_module().supports_response_schema(model=model))


def is_chat_model(model: Fallback) -> bool:
    """Return whether the model answers messages, as far as that is known."""
    return _mode_of(model) not in _OTHER_MODES


def shortcomings(model: Fallback, definition: AgentDefinition) -> Iterator[str]:
    """Yield what the model is known to lack of what the agent needs, as sentences with the remedy."""
    entry = _listed(model.model) if model.api_base is None and not is_in_process(model.model) else None
    name = f"'{model.model}'"
    if not is_chat_model(model):
        yield f"{name} answers no messages: LiteLLM lists it for {_mode_of(model)}. Name a chat model."
        return
    if definition.tools and model.model.startswith("ollama/"):
        name = model.model.removeprefix("ollama/")
        yield f"LiteLLM's route `ollama/` makes calls of tools text; write it as ollama_chat/{name}."
    elif definition.tools and entry is not None and not entry["passes_tools"]:
        yield f"LiteLLM passes no tools to {name}; name another model, or leave `tools:` out."
    elif definition.tools and entry is not None and entry.get("supports_function_calling") is False:
        yield f"LiteLLM lists {name} as a model that calls no tools; name another one if it never calls them."
    if definition.output_schema is not None and not has_schema_mode(model.model, model.api_base):
        yield (
            f"{name} takes no schema: it is asked for a JSON object, and has the schema in its prompt alone. "
            "Name another model if its answers do not fit."
        )
    if entry is not None and entry.get("supports_native_streaming") is False:
        yield f"{name} does not stream: its answers come whole. Name another model for streamed text."


_noted: set[tuple[str, str]] = set()
"""The digests of definitions, with the models that their runs were accepted with, of which the log has it."""


def note_shortcomings(definition: AgentDefinition, accepted: str) -> None:
    """Log once in a process what the agent's models lack; nothing where LiteLLM is not imported."""
    runs_of = (definition.digest, accepted)
    if runs_of in _noted or not is_imported():
        return
    _noted.add(runs_of)
    models = Models(definition, accepted)
    for sentence in [each for model in (models.current, *models.others) for each in shortcomings(model, definition)]:
        log.warning("the model may not fit its agent agent_id=%s: %s", definition.id, sentence)


def _mode_of(model: Fallback) -> str:
    entry = _listed(model.model) if not is_in_process(model.model) and model.api_base is None else None
    return str(entry.get("mode", "")) if entry is not None else ""


@lru_cache(maxsize=512)
def _listed(model: str) -> Mapping[str, Any] | None:
    """Return what LiteLLM's list says of a model, its ``provider`` and ``passes_tools``; None where it lacks the model.

    ``litellm.get_model_info`` is not used: of Ollama's models it asks the server.
    """
    litellm = litellm_module()
    try:
        name, provider = litellm.get_llm_provider(model)[:2]
        entries = [litellm.model_cost[key] for key in (model, f"{provider}/{name}", name) if key in litellm.model_cost]
        params = litellm.get_supported_openai_params(model=name, custom_llm_provider=provider) or ["tools"]
    except Exception:  # several types, for odd names
        return None
    return ChainMap({"provider": provider, "passes_tools": "tools" in params}, *entries) if entries else None
