"""Resolves the model ``auto``: the provider whose key is set, else Ollama if it answers, else the demo model."""

from __future__ import annotations

import http.client
import time
import urllib.request
from collections.abc import Mapping
from functools import lru_cache

from config.provider_keys import has_key

BY_KEY: Mapping[str, str] = {
    "ANTHROPIC_API_KEY": "anthropic/claude-haiku-5-5",
    "OPENAI_API_KEY": "openai/gpt-5-mini",
    "GEMINI_API_KEY": "gemini/gemini-flash-latest",
}
"""Variables and their models; the first variable that is set decides."""
OLLAMA = "ollama_chat/llama3.2:3b"
"""Not ``ollama/``: with tools, LiteLLM makes that route answer everything as JSON and drops the calls."""
DEMO = "demo/assistant"
OLLAMA_URL = "http://127.0.0.1:11434"
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


@lru_cache(maxsize=16)
def _answers(url: str, _period: int) -> bool:
    """Return whether Ollama answers at ``url``; asked once a period."""
    # Proxies are left aside: the address is this machine's own.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{url.rstrip('/')}/api/tags", timeout=PROBE_S) as answer:
            return bool(answer.status == 200)
    except (OSError, ValueError, http.client.HTTPException):
        return False
