"""Resolves the model ``auto``: the provider whose key is set, else Ollama if it answers, else the demo model."""

from __future__ import annotations

import http.client
import json
import time
import urllib.request
from collections.abc import Mapping
from functools import lru_cache

from config.redaction.provider_keys import has_key

BY_KEY: Mapping[str, str] = {
    "ANTHROPIC_API_KEY": "anthropic/claude-haiku-5-5",
    "OPENAI_API_KEY": "openai/gpt-5-mini",
    "GEMINI_API_KEY": "gemini/gemini-flash-latest",
}
"""Variables and their models; the first variable that is set decides."""
OLLAMA = "ollama_chat/llama3.2:3b"
"""Not ``ollama/``: with tools, LiteLLM makes that route answer everything as JSON and drops the calls."""
DEMO = "demo/assistant"
OLLAMA_PROVIDERS = ("ollama", "ollama_chat")
OLLAMA_URL = "http://127.0.0.1:11434"
MAX_BYTES = 1024 * 1024
"""Of Ollama's list of models."""
PROBE_S = 0.3
"""Seconds Ollama has to answer."""
KEPT_S = 30
"""Seconds for which the probe's result is reused."""


def resolve_model(model: str, environment: Mapping[str, str], ollama_url: str | None = None) -> str:
    """Return the model a run is accepted with; names other than ``auto`` are returned as they are."""
    if model != "auto":
        return model
    for variable, named in BY_KEY.items():
        if has_key(environment, variable):
            return named
    url = OLLAMA_URL if ollama_url is None else ollama_url
    return OLLAMA if _answers(url, int(time.monotonic() // KEPT_S)) else DEMO


def offer_of(model: str) -> str | None:
    """Return how to get a model that Ollama does not have, as a sentence; None for a model of another provider.

    Callboard fetches none by itself: it takes gigabytes, and minutes.
    """
    provider, _, name = model.partition("/")
    return f"`ollama pull {name}` fetches it." if provider in OLLAMA_PROVIDERS else None


def has_model(url: str = OLLAMA_URL) -> bool:
    """Return whether the Ollama at ``url`` has the model that ``auto`` uses there; also where it does not say."""
    body = listed_models(url)
    try:
        names = [model["name"] for model in json.loads(body or b"")["models"]]
    except (ValueError, KeyError, TypeError):
        return True
    return OLLAMA.partition("/")[2] in names


@lru_cache(maxsize=16)
def _answers(url: str, _period: int) -> bool:
    """Return whether Ollama answers at ``url``; asked once a period."""
    return listed_models(url) is not None


def listed_models(url: str) -> bytes | None:
    """Return what Ollama answers when it is asked for its models; None where it does not answer."""
    # Proxies are left aside: the address is this machine's own.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{url.rstrip('/')}/api/tags", timeout=PROBE_S) as answer:
            return bytes(answer.read(MAX_BYTES)) if answer.status == 200 else None
    except (OSError, ValueError, http.client.HTTPException):
        return None
