"""Secrets do not reach logs, events or error texts: what looks like a key is replaced by ``[redacted]``.

Two nets. The forms providers give their keys, and the values this process itself holds in variables
named like secrets, which also catches a key of a form nobody has seen yet.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Mapping
from functools import lru_cache

REDACTED = "[redacted]"
MIN_SECRET_CHARS = 8
"""Shorter values of secret variables are too likely to be words of the text."""

_SECRET_NAME = re.compile(r"_API_KEY$|_TOKEN$|SECRET|PASSWORD|PASSWD|_ACCESS_KEY$|_PRIVATE_KEY$")

_FORMS = (
    # PEM blocks, also when the line breaks were escaped on the way, and when the end was cut off
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[A-Za-z0-9+/=\s\\]{0,8000}(?:-----END [A-Z ]{0,40}PRIVATE KEY-----)?",
    # OpenAI, Anthropic, OpenRouter, DeepSeek, Stripe ...: sk-…, sk_live_…, rk_live_…
    r"\b(?:sk|rk|pk)[-_][A-Za-z0-9_-]{16,}",
    # AWS access key ids, then secrets named as such
    r"\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{16}\b",
    r"(?i:aws_?secret_?(?:access_?)?key\W{1,6})[A-Za-z0-9/+=]{40}",
    # JWT: two base64url objects and a signature (which may be empty)
    r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*",
    # GitHub, GitLab, Slack, Google, Hugging Face, Groq, npm, PyPI, Telegram, Discord
    r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}|xox[a-z]-[A-Za-z0-9-]{10,}"
    r"|AIza[A-Za-z0-9_-]{30,}|hf_[A-Za-z0-9]{20,}|gsk_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{30,}"
    r"|xai-[A-Za-z0-9]{20,}|\d{8,10}:AA[A-Za-z0-9_-]{30,})",
    # base64 of the forms above: "sk-", "AKIA", "-----BEGIN"
    r"\b(?:c2st|QUtJQ|LS0tLS1CRUdJTi)[A-Za-z0-9+/_-]{20,}={0,2}",
)
# What follows a word that says it is a secret; the word stays, so that the line can be read.
_NAMED = (
    r"(?i:\bbearer\s+)(?P<bearer>[A-Za-z0-9._~+/=-]{8,})",
    r"(?i:\bbasic\s+)(?P<basic>[A-Za-z0-9+/]{12,}={0,2})",
    r"://[^\s:/@\"']{0,200}:(?P<password>[^\s/@\"']{1,200})(?=@)",
    r"(?i:(?:api[_-]?key|access[_-]?token|auth[_-]?token|client[_-]?secret|password|passwd|x-api-key)"
    r"[\"']?\s{0,3}[=:]\s{0,3}[\"']?)(?P<named>(?!\[redacted)[^\s\"'&,;}\]]{6,})",
)
_FORM = re.compile("|".join(_FORMS))
_NAME = re.compile("|".join(_NAMED))
_HINT = re.compile(
    r"(?i:sk[-_]|rk_|pk[-_]|AKIA|ASIA|AROA|AIDA|eyJ|gh[pousr]_|github_|glpat|xox|AIza|hf_|gsk_|npm_|pypi-|xai-|:AA"
    r"|PRIVATE KEY|c2st|QUtJQ|LS0tLS1|secret|bearer|basic|://|api.?key|token|passw)"
)


class Redactor:
    """Replaces secrets of the usual forms, and those of one environment."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        held = {value for name, value in environment.items() if _is_secret(name, value)}
        held |= {base64.b64encode(value.encode("utf-8", "surrogateescape")).decode() for value in held}
        longest_first = sorted(held, key=len, reverse=True)
        self._held = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def __call__(self, text: str) -> str:
        """Return the text without secrets; what holds none comes back as it was."""
        if self._held is not None:
            text = self._held.sub(REDACTED, text)
        if _HINT.search(text) is None:
            return text
        return _NAME.sub(_keep_the_name, _FORM.sub(REDACTED, text))


def redact(text: str) -> str:
    """Return ``text`` with every secret replaced; this process's environment is read once."""
    return _own()(text)


def forget() -> None:
    """Read the environment again at the next ``redact``."""
    _own.cache_clear()


@lru_cache(maxsize=1)
def _own() -> Redactor:
    return Redactor(os.environ)


def _is_secret(name: str, value: str) -> bool:
    return len(value) >= MIN_SECRET_CHARS and _SECRET_NAME.search(name.upper()) is not None


def _keep_the_name(match: re.Match[str]) -> str:
    group = match.lastgroup
    if group is None:
        return match.group()
    whole, start = match.group(), match.start()
    return whole[: match.start(group) - start] + REDACTED + whole[match.end(group) - start :]
