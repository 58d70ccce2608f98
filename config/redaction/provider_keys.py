"""Keep providers' keys out of the web process, which accepts runs but calls no model.

`model: auto` depends on which keys exist, so the web process gets their names, never their values. It gets keyed
digests of the values, by which it recognises them in what clients send.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection, Iterable, Mapping

from config.redaction.redactor import DIGESTS_HELD, is_secret, with_spellings
from config.redaction.secret_digests import digests_of

NAMES_HELD = "_CALLBOARD_KEYS_HELD"
"""The variable with the comma-separated names of the parent's keys; this process has no key itself."""
_PROVIDERS = re.compile(
    r"^(ANTHROPIC|OPENAI|GEMINI|GOOGLE|VERTEX|AZURE|AZURE_OPENAI|AZURE_AI|MISTRAL|CODESTRAL|COHERE|CO|GROQ|DEEPSEEK"
    r"|OPENROUTER|XAI|TOGETHERAI|TOGETHER_AI|TOGETHER|FIREWORKS|FIREWORKS_AI|PERPLEXITY|PERPLEXITYAI|HUGGINGFACE|HF"
    r"|REPLICATE|CEREBRAS|VOYAGE|NVIDIA_NIM|DATABRICKS|WATSONX|SAMBANOVA|MOONSHOT|DASHSCOPE|NEBIUS|LITELLM|OLLAMA)"
    r"_(API_KEY|KEY|TOKEN|AUTH_TOKEN|MASTER_KEY)$"
)
_NEEDED = ("CALLBOARD_", "PG")
"""Prefixes of variables that a web process always needs: its settings, and libpq's."""


def without_keys(
    environment: Mapping[str, str], named: Iterable[str] = (), needed: Collection[str] = ()
) -> dict[str, str]:
    """Return the environment without variables that hold secrets or that definitions name as keys.

    ``needed``: the secrets that a web process needs itself, as those of webhooks.
    """
    keys = {name for name, value in environment.items() if is_key(name, value)} | (set(named) & environment.keys())
    keys -= set(needed)
    held = sorted(name for name in keys if environment[name].strip())
    variables = {name: value for name, value in environment.items() if name not in keys}
    digests = digests_of(with_spellings(environment[name] for name in held), secrets.token_bytes(32))
    return {**variables, NAMES_HELD: ",".join(held), DIGESTS_HELD: digests}


def is_key(name: str, value: str) -> bool:
    """Return whether a variable holds a secret that a web process does not need."""
    return not name.startswith(_NEEDED) and is_secret(name, value)


def is_providers(name: str) -> bool:
    """Return whether a variable of this name holds the key of a provider of models, as their libraries name it."""
    return _PROVIDERS.match(name.upper()) is not None


def has_key(environment: Mapping[str, str], name: str) -> bool:
    """Return whether workers have this key: it is set in this process, or its name was handed over."""
    return bool(environment.get(name, "").strip()) or name in environment.get(NAMES_HELD, "").split(",")


def may_adopt(environment: Mapping[str, str], name: str, value: str) -> bool:
    """Return whether this process may take a variable from ``.env``."""
    if NAMES_HELD not in environment:
        return True
    return not is_key(name, value) and name not in environment[NAMES_HELD].split(",")
