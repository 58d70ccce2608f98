"""Secrets do not reach logs, events or error texts: what looks like a key is replaced by ``[redacted]``.

Three nets. The forms providers give their keys; the values this process holds in variables named like secrets,
and the passwords of addresses in any variable; and the values that were registered because a definition or a setting
names them as secrets, whatever they look like. Every pattern is linear in the length of the text.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from urllib.parse import parse_qsl, quote, unquote, urlsplit

REDACTED = "[redacted]"
MIN_SECRET_CHARS = 8
"""Shorter values of secret variables are too likely to be words of the text."""
MIN_REGISTERED_CHARS = 6
"""The same for a value that is known to be a secret."""
MARGIN_CHARS = 8192
"""Characters examined beyond a limit, so that a secret that begins before the limit is recognised as a whole."""

MAX_CHARS = 128 * 1024
"""Longest text that is examined; ``redact`` cuts what is longer, since the loop of a worker waits for it."""

_SECRET_NAME = re.compile(
    r"KEY$|TOKEN$|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|^(?:SIG|SIGNATURE|CODE|AUTH|AUTHORIZATION)$"
)

_FORMS = (
    # PEM blocks, also when the line breaks were escaped on the way, and when the end was cut off
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[A-Za-z0-9+/=\s\\]{0,8000}(?:-----END [A-Z ]{0,40}PRIVATE KEY-----)?",
    # OpenAI, Anthropic, OpenRouter, DeepSeek, Stripe ...: sk-…, sk_live_…, rk_live_…
    r"\b(?:sk|rk|pk)[-_][A-Za-z0-9_-]{16,}",
    # AWS access key ids, then secrets named as such
    r"\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{16}\b",
    r"(?i:aws_?secret_?(?:access_?)?key\W{1,6})[A-Za-z0-9/+=]{40}",
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
_JWT_RUN = re.compile(r"\beyJ[A-Za-z0-9_.-]+")
"""A whole run of a token's characters: a search for the token itself would start again at each ``eyJ``."""
_NAME = re.compile("|".join(_NAMED))
_HINT = re.compile(
    r"(?i:sk[-_]|rk_|pk[-_]|AKIA|ASIA|AROA|AIDA|eyJ|gh[pousr]_|github_|glpat|xox|AIza|hf_|gsk_|npm_|pypi-|xai-|:AA"
    r"|PRIVATE KEY|c2st|QUtJQ|LS0tLS1|secret|bearer|basic|://|api.?key|token|passw)"
)


class Redactor:
    """Replaces secrets of the usual forms, those of one environment, and those that were registered."""

    def __init__(self, environment: Mapping[str, str], registered: Iterable[str] = ()) -> None:
        held = {value for name, value in environment.items() if is_secret(name, value)}
        held.update(*(secrets_in_url(value) for value in environment.values() if "://" in value), registered)
        held.update(*[tuple(_spellings(value)) for value in held])
        self._held = sorted(held, key=len, reverse=True)
        longest = len(self._held[0]) if self._held else 0
        self.margin_chars = max(MARGIN_CHARS, longest)
        """Characters that have to be examined beyond a limit."""

    def __call__(self, text: str) -> str:
        """Return the text without secrets, cut behind ``MAX_CHARS``; what holds none comes back as it was."""
        if len(text) > MAX_CHARS:
            return f"{self.start(text, MAX_CHARS)}… ({len(text) - MAX_CHARS:,} more characters)"
        return self._replaced(text)

    def start(self, text: str, max_chars: int) -> str:
        """Return at most ``max_chars`` characters of the redacted text, and no part of a secret at its end.

        What is redacted becomes shorter, so that the end of what is examined may move up to the limit, and with it
        the first characters of a secret that ends behind it: as much as stands unchanged there is left out.
        """
        examined = text[: max_chars + self.margin_chars]
        shown = self._replaced(examined)
        if len(examined) < len(text):
            ends = [part[-self.margin_chars :][::-1] for part in (examined, shown)]
            shown = shown[: len(shown) - len(os.path.commonprefix(ends))]  # noqa: RUF071  # compares characters
        return shown[:max_chars]

    def _replaced(self, text: str) -> str:
        for secret in self._held:
            if secret in text:
                text = text.replace(secret, REDACTED)
        if _HINT.search(text) is None:
            return text
        text = _JWT_RUN.sub(_without_jwt, _FORM.sub(REDACTED, text))
        return _NAME.sub(_keep_the_name, text)


def redact(text: str) -> str:
    """Return ``text`` with every secret replaced; this process's environment is read once."""
    return _own()(text)


def redact_start(text: str, max_chars: int) -> str:
    """Return at most ``max_chars`` characters of the redacted text; what lies far behind them is not examined."""
    return _own().start(text, max_chars)


def register_secrets(values: Iterable[str]) -> None:
    """``redact`` replaces these values from now on, whatever they look like and wherever they came from."""
    new = {value for value in values if len(value) >= MIN_REGISTERED_CHARS} - _registered
    if new:
        _registered.update(new)
        _own.cache_clear()


def secrets_in_url(url: str) -> list[str]:
    """Return the password in an address, and the parameters of its query that are named like secrets."""
    try:
        parts = urlsplit(url)
        items = parse_qsl(parts.query, max_num_fields=100)
        written = [parts.password or "", *(value for name, value in items if _SECRET_NAME.search(name.upper()))]
    except ValueError:
        return []
    return [value for value in written if len(value) >= MIN_REGISTERED_CHARS]


def forget() -> None:
    """Read the environment again at the next ``redact``; what was registered stays."""
    _own.cache_clear()


_registered: set[str] = set()


@lru_cache(maxsize=1)
def _own() -> Redactor:
    return Redactor(os.environ, tuple(_registered))


def is_secret(name: str, value: str) -> bool:
    """Return whether a variable is named like a secret, and its value is one."""
    is_path = value.startswith(("/", "./", "~"))  # of a file that holds the secret
    return len(value) >= MIN_SECRET_CHARS and not is_path and _SECRET_NAME.search(name.upper()) is not None


def _spellings(value: str) -> Iterator[str]:
    """Yield how a secret may be written on its way: in base64, in an address, in JSON with and without ``\\u``."""
    yield base64.b64encode(value.encode("utf-8", "surrogateescape")).decode()
    yield quote(value, safe="", errors="surrogateescape")
    yield from (plain for plain in (unquote(value),) if len(plain) >= MIN_REGISTERED_CHARS)
    yield from (json.dumps(value, ensure_ascii=is_ascii)[1:-1] for is_ascii in (True, False))


def _without_jwt(match: re.Match[str]) -> str:
    """Return ``[redacted]`` for a run that holds two base64url objects and a signature (which may be empty)."""
    parts = match.group().split(".")
    heads = zip(parts, parts[1:], parts[2:], strict=False)
    found = any(
        second.startswith("eyJ") and len(second) >= 7 and 0 <= first.find("eyJ") <= len(first) - 11
        for first, second, _ in heads
    )
    return REDACTED if found else match.group()


def _keep_the_name(match: re.Match[str]) -> str:
    group = match.lastgroup
    if group is None:
        return match.group()
    whole, start = match.group(), match.start()
    return whole[: match.start(group) - start] + REDACTED + whole[match.end(group) - start :]
