"""Redaction: secrets in logs, events and error texts are replaced by ``[redacted]``.

It finds known forms of keys; the values of this process's variables that are named like secrets, and passwords in URLs
of any variable; those that its parent has, by digest; and values registered because a definition or a setting names
them as secrets, or set by an owner that replaces them, such as a login whose tokens are renewed. Every pattern is
linear in the length of the text.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from config.redaction.secret_digests import Digests

REDACTED = "[redacted]"
DIGESTS_HELD = "_CALLBOARD_DIGESTS_HELD"
"""The variable with the digests of secrets that the parent has and this process has not."""
MIN_SECRET_CHARS = 8
"""Shorter values of secret variables are likely to be ordinary words."""
MIN_REGISTERED_CHARS = 6
"""The limit for a value that is known to be a secret."""
MARGIN_CHARS = 8192
"""Characters examined beyond a limit, so that a secret that begins before the limit is recognised as a whole."""

MAX_CHARS = 128 * 1024
"""Longest text that is examined; ``redact`` truncates longer ones, since it blocks a worker's event loop."""

_SECRET_NAME = re.compile(
    r"KEY$|TOKEN$|SECRET|PASSWORD|PASSWD|_PASS$|_PWD$|PASSPHRASE|CREDENTIAL|^(?:SIG|SIGNATURE|CODE|AUTH|AUTHORIZATION)$"
)


def _at_word(*beginnings: str, then: str) -> str:
    """Return a pattern for what begins at a word with one of ``beginnings``.

    Each alternative begins with a letter, since ``re`` then skips all text without these letters; after a leading
    ``\\b`` it would try each alternative at each character, which takes ten times as long.
    """
    return "|".join(rf"{text[0]}(?<=\b{text[0]}){text[1:]}{then}" for text in beginnings)


def _in_any_case(beginning: str, then: str) -> str:
    """Return a pattern for what begins so in upper or lower case, each alternative with its letter, as above."""
    return "|".join(f"{letter}(?i:{beginning[1:]}){then}" for letter in (beginning[0], beginning[0].upper()))


def _in_address(names: str, then: str) -> str:
    """Return a pattern for a parameter of an address, also as HTML and JSON write it; each alternative as above."""
    return "|".join(rf"{before}(?i:{names}){then}" for before in (r"\?", "#", "&(?:amp;)?", r"\\u0026"))


_FORMS = (
    # PEM blocks, also when the line breaks were escaped on the way, and when the end was cut off
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----(?:(?:\s|\\[rn]){1,4}(?:Proc-Type|DEK-Info):[A-Za-z0-9 ,-]{0,200}){0,2}"
    r"[A-Za-z0-9+/=\s\\]{0,8000}(?:-----END [A-Z ]{0,40}PRIVATE KEY-----)?",
    # OpenAI, Anthropic, OpenRouter, DeepSeek, Stripe ...: sk-…, sk_live_…, rk_live_…
    _at_word("sk", "rk", "pk", then=r"[-_][A-Za-z0-9_-]{16,}"),
    # Callboard's own: privilege grants, API keys, the installation's token, sessions, tickets
    _at_word("cbg_", "cbk_", "cbl_", "cbs_", "cbt_", then=r"[A-Za-z0-9_]{16,}"),
    # the same in an address, where a client encoded them once or more
    _at_word("cb[gklst]%(?:25){0,3}5[Ff]", then=r"[A-Za-z0-9_]{16,}"),
    r"%(?:25){0,3}63b[gklst](?:_|%(?:25){0,3}5[Ff])[A-Za-z0-9_]{16,}",
    # AWS access key ids, then secrets named as such
    _at_word("AKIA", "ASIA", "AROA", "AIDA", then=r"[A-Z0-9]{16}\b"),
    _in_any_case(r"aws_?secret_?(?:access_?)?key\W{1,6}", then=r"[A-Za-z0-9/+=]{40}"),
    # GitHub, GitLab, Slack, Google, Hugging Face, Groq, xAI, npm, PyPI
    _at_word("gh[pousr]_", "hf_", "gsk_", "xai-", then=r"[A-Za-z0-9]{20,}"),
    _at_word("github_pat_", then=r"[A-Za-z0-9_]{20,}"),
    _at_word("glpat-", then=r"[A-Za-z0-9_-]{16,}"),
    _at_word("xox[a-z]-", then=r"[A-Za-z0-9-]{10,}"),
    _at_word("AIza", "pypi-", then=r"[A-Za-z0-9_-]{30,}"),
    _at_word("npm_", then=r"[A-Za-z0-9]{30,}"),
    # base64 of the forms above: "sk-", "AKIA", "-----BEGIN"
    _at_word("c2st", "QUtJQ", "LS0tLS1CRUdJTi", then=r"[A-Za-z0-9+/_-]{20,}={0,2}"),
)
_VALUE = r"[\"']?\s{0,3}[=:]\s{0,3}[\"']?((?!\[redacted)[^\s\"'&,;}\]]{6,})"
# No value in an address begins as placeholders do: {, $ or <.
_URL_VALUE = r"=([A-Za-z0-9%._~+/!*-][^\s\"'&,;}\]#<>`]{5,})"
# An unbroken sequence with digits: `key=` may also name a field or a file.
_URL_KEY = r"=((?=[A-Za-z]{0,64}[0-9])[A-Za-z0-9]{16}[^\s\"'&,;}\]#<>`]*)"
_PARAMETER = r"=(?:[A-Za-z]{1,10}(?:\s|\+|%20|%2520){1,3})?((?!\[redacted)[^\s\"'&,;}\]]{6,})"
# Values after a word that marks them as secret; the word stays. The group is the value.
_NAMED = (
    _in_any_case(r"b(?<=\bb)earer\s+", then=r"([A-Za-z0-9._~+/=-]{8,})"),
    _in_any_case(r"b(?<=\bb)asic\s+", then=r"([A-Za-z0-9+/]{12,}={0,2})"),
    r"://[^\s:/@\"']{0,200}:([^\s/@\"']{1,200})(?=@)",
    _in_any_case(r"a(?:pi[_-]?key|ccess[_-]?token|uth[_-]?token)", then=_VALUE),
    _in_any_case(r"client[_-]?secret", then=_VALUE),
    # parameters of an address
    _in_any_case(r"j(?<=\bj)wt", then=_PARAMETER),
    _in_any_case(r"b(?<=\bb)earer", then=_PARAMETER),
    _in_any_case(r"a(?<=\ba)uthorization", then=_PARAMETER),
    _in_any_case(r"passw(?:or)?d", then=_VALUE),
    _in_address(r"(?:id_|refresh_)?token|sig|secret|pass|pwd", then=_URL_VALUE),
    _in_address(r"(?:x-(?:amz|goog)-)?signature|x-amz-security-token", then=_URL_VALUE),
    _in_address("key", then=_URL_KEY),
)
_FORM = re.compile("|".join(_FORMS))
_BOT_TOKEN = re.compile(r"[0-9](?<=\b[0-9])[0-9]{7,9}:AA[A-Za-z0-9_-]{30,}")
"""A token of Telegram; beside the forms, as it begins with a class and not with a letter."""
_JWT_RUN = re.compile(r"e(?<=\be)yJ[A-Za-z0-9_.-]+")
"""A maximal sequence of token characters: a pattern of the token itself would restart at each ``eyJ``."""
_NAME = re.compile("|".join(_NAMED))
PATTERNS = (_FORM.pattern, _BOT_TOKEN.pattern, _JWT_RUN.pattern, _NAME.pattern)
"""What a secret that was not registered looks like, with the word that marks it."""


class Redactor:
    """Replaces secrets of known forms, those of one environment, and registered ones."""

    def __init__(self, environment: Mapping[str, str], registered: Iterable[str] = ()) -> None:
        held = {value for name, value in environment.items() if is_secret(name, value)}
        held.update(*(secrets_in_url(value) for value in environment.values() if "://" in value), registered)
        held = set(with_spellings(held))
        self._digests = Digests(environment.get(DIGESTS_HELD, ""))
        self._held = sorted(held, key=len, reverse=True)
        self.values: tuple[str, ...] = tuple(self._held)
        """The known values in all their spellings, the longest first."""
        longest = len(self._held[0]) if self._held else 0
        self._shortest = len(self._held[-1]) if self._held else 0
        self.margin_chars = max(MARGIN_CHARS, longest)
        """Characters that have to be examined beyond a limit."""

    def __call__(self, text: str) -> str:
        """Return the text without secrets, truncated to ``MAX_CHARS``; a text without secrets is unchanged."""
        if len(text) > MAX_CHARS:
            return f"{self.start(text, MAX_CHARS)}… ({len(text) - MAX_CHARS:,} more characters)"
        return self.whole(text)

    def start(self, text: str, max_chars: int) -> str:
        """Return at most ``max_chars`` characters of the redacted text, without a partial secret at its end.

        Redaction shortens the text, so the end of the examined part, which may cut a secret in two, can move below the
        limit: characters that redaction left unchanged at that end are dropped.
        """
        examined = text[: max_chars + self.margin_chars]
        clean_text = self.whole(examined)
        if len(examined) < len(text):
            ends = [part[-self.margin_chars :][::-1] for part in (examined, clean_text)]
            clean_text = clean_text[: len(clean_text) - len(os.path.commonprefix(ends))]  # noqa: RUF071  # compares characters
        return clean_text[:max_chars]

    def whole(self, text: str) -> str:
        """Return the text without secrets, however long it is; not for an event loop, unless the text is short."""
        return _NAME.sub(_keep_the_name, self.certain(text))

    def likely(self, text: str) -> str:
        """Return the text as ``whole`` does, but with values after a word that do not look like secrets.

        For texts that are read, where ``basic understanding`` and ``password=getpass()`` have to stay.
        """
        return _NAME.sub(_keep_the_unlikely, self.certain(text))

    def certain(self, text: str) -> str:
        """Return the text without the values and keys that are secrets by themselves, whatever word marks them."""
        text = self.known(text)
        if ":AA" in text:
            text = _BOT_TOKEN.sub(REDACTED, text)
        return _JWT_RUN.sub(_without_jwt, _FORM.sub(REDACTED, text))

    def known(self, text: str) -> str:
        """Return the text without the values that are known to be secrets, here or to the process's parent."""
        text = self._digests.replace(text, REDACTED)
        if len(text) < self._shortest:
            return text
        for secret in self._held:
            if secret in text:
                text = text.replace(secret, REDACTED)
        return text


def redact(text: str) -> str:
    """Return ``text`` without secrets; this process's environment is read once."""
    return _own()(text)


def own_redactor() -> Redactor:
    """Return what ``redact`` uses now; another one after a value was registered."""
    return _own()


def redact_start(text: str, max_chars: int) -> str:
    """Return at most ``max_chars`` characters of the redacted text; the rest is not examined."""
    return _own().start(text, max_chars)


def register_secrets(values: Iterable[str]) -> None:
    """Make ``redact`` replace these values for as long as the process lives."""
    new = _long_enough(values) - _registered
    if new:
        _registered.update(new)
        forget()


def set_secrets(owner: str, values: Iterable[str]) -> None:
    """Make ``redact`` replace these values from now on, and no longer those that ``owner`` set before.

    A value that was registered, or that another owner has set too, is still replaced.
    """
    present = _long_enough(values)
    if present == _of_owners.get(owner, frozenset()):
        return
    if present:
        _of_owners[owner] = present
    else:
        _of_owners.pop(owner, None)
    forget()


def _long_enough(values: Iterable[str]) -> frozenset[str]:
    return frozenset(value for value in values if len(value) >= MIN_REGISTERED_CHARS)


def secrets_in_url(url: str) -> list[str]:
    """Return a URL's password, and its query parameters that are named like secrets."""
    try:
        parts = urlsplit(url)
        items = parse_qsl(parts.query, max_num_fields=100)
        written = [parts.password or "", *(value for name, value in items if _SECRET_NAME.search(name.upper()))]
    except ValueError:
        return []
    return [value for value in written if len(value) >= MIN_REGISTERED_CHARS]


def forget() -> None:
    """Make the next ``redact`` read the environment again; registered values and those of owners stay."""
    global _version
    _version = object()


_registered: set[str] = set()
_of_owners: dict[str, frozenset[str]] = {}
_version = object()
"""Another one after each change, so that a redactor which was made during the change is not used after it."""


def _own() -> Redactor:
    return _made(_version)


@lru_cache(maxsize=1)
def _made(version: object) -> Redactor:
    return Redactor(os.environ, tuple(_registered.union(*tuple(_of_owners.values()))))


def is_secret(name: str, value: str) -> bool:
    """Return whether a variable is named like a secret and its value is not a file's path."""
    is_named_so = len(value) >= MIN_SECRET_CHARS and _SECRET_NAME.search(name.upper()) is not None
    return is_named_so and not _is_path(name, value)


def _is_path(name: str, value: str) -> bool:
    """Return whether a value names a file; a leading ``/`` is not enough, since one base64 text in 64 has it."""
    if not value.startswith(("/", "./", "~")):
        return False
    return name.upper().endswith(("_FILE", "_PATH", "_DIR")) or os.path.exists(os.path.expanduser(value))


def with_spellings(values: Iterable[str]) -> list[str]:
    """Return the values in all spellings in which ``redact`` replaces them."""
    return [spelling for value in values for spelling in (value, *_spellings(value))]


def _spellings(value: str) -> Iterator[str]:
    """Yield a secret's encodings: base64, URL-quoted, JSON with and without ``\\u``."""
    yield base64.b64encode(value.encode("utf-8", "surrogateescape")).decode()
    yield quote(value, safe="", errors="surrogateescape")
    yield from (plain for plain in (unquote(value),) if len(plain) >= MIN_REGISTERED_CHARS)
    yield from (json.dumps(value, ensure_ascii=is_ascii)[1:-1] for is_ascii in (True, False))


def has_jwt(text: str) -> bool:
    """Return whether a text has a JSON Web Token."""
    return "eyJ" in text and _JWT_RUN.sub(_without_jwt, text) != text


def _without_jwt(match: re.Match[str]) -> str:
    """Return ``[redacted]`` for a run that holds two base64url objects and a signature (which may be empty)."""
    parts = match.group().split(".")
    heads = zip(parts, parts[1:], parts[2:], strict=False)
    is_token = any(
        second.startswith("eyJ") and len(second) >= 7 and 0 <= first.find("eyJ") <= len(first) - 11
        for first, second, _ in heads
    )
    return REDACTED if is_token else match.group()


def _keep_the_unlikely(match: re.Match[str]) -> str:
    value = match.group(match.lastindex or 0)
    is_password_of_url = match.group().startswith("://")
    if is_password_of_url or (_MIXED.search(value) is not None and _EXPRESSION.match(value) is None):
        return _keep_the_name(match)
    return match.group()


_MIXED = re.compile(r"[0-9]|[a-z][A-Z]")
"""What a value that was made at random or chosen as a password has, and words have not."""
_EXPRESSION = re.compile(r"[A-Za-z_][\w.]{0,100}[(\[]")
"""How a call or an element begins in a program."""


def _keep_the_name(match: re.Match[str]) -> str:
    group = match.lastindex or 0  # each pattern has one
    whole, start = match.group(), match.start()
    return whole[: match.start(group) - start] + REDACTED + whole[match.end(group) - start :]
