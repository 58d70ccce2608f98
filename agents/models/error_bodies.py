"""Extracts one sentence from a provider's error body, in each of the formats in use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from config.redaction import redact_start

MAX_CHARS = 400
"""Longest sentence that is quoted of a provider."""
MAX_READ_CHARS = 64 * 1024
"""Characters of a text that are looked at."""
FINAL_KINDS = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "billing_error"})
"""A provider's names for an account that is used up; it sends them with 429, which otherwise asks to wait."""
_TEXTS = ("message", "msg", "detail", "details", "error_description", "title", "reason")
_INNER = ("error", "errors", "detail", "details", "message")
_KINDS = ("type", "code", "status")


@dataclass(frozen=True, kw_only=True, slots=True)
class ProviderMessage:
    """A provider's explanation of an error."""

    text: str = ""
    """One line without secrets, at most ``MAX_CHARS``; empty where it gave no reason."""
    kinds: frozenset[str] = frozenset()
    """Its names for the failure, e.g. ``insufficient_quota``."""


def parse_error_body(body: Any) -> ProviderMessage:
    """Return what an error body says: decoded JSON, or a text that may hold JSON, HTML or a plain sentence."""
    if isinstance(body, bytes):
        body = body[:MAX_READ_CHARS].decode("utf-8", "replace")
    if isinstance(body, str):
        body = _decoded(body[:MAX_READ_CHARS])
    kinds: set[str] = set()
    return ProviderMessage(text=_line(_text(body, kinds, 0)), kinds=frozenset(kinds))


def _decoded(text: str) -> Any:
    """Return the JSON in a text, which a proxy may have prefixed with words of its own; else the text."""
    for start in sorted(position for position in (text.find("{"), text.find("[")) if position >= 0):
        end = text.rfind("}" if text[start] == "{" else "]")
        try:
            return orjson.loads(text[start : end + 1])
        except orjson.JSONDecodeError:
            continue
    return text


def _text(body: Any, kinds: set[str], depth: int) -> str:
    """Return the first sentence in a body, and gather the kinds on the way to it."""
    if isinstance(body, str):
        data = _decoded(body) if body.lstrip()[:1] in ("{", "[") and depth < 4 else body
        return _page(body) if isinstance(data, str) else _text(data, kinds, depth + 1)
    if isinstance(body, list) and body and depth < 4:
        return _text(body[0], kinds, depth + 1)
    if not isinstance(body, Mapping) or depth >= 4:
        return ""
    kinds.update(str(body[name])[:80] for name in _KINDS if isinstance(body.get(name), str | int))
    inner = (_text(body[name], kinds, depth + 1) for name in _INNER if isinstance(body.get(name), Mapping | list))
    direct = (_text(body[name], kinds, depth + 1) for name in (*_TEXTS, "error") if isinstance(body.get(name), str))
    return next(filter(None, (*inner, *direct)), "")


def _page(text: str) -> str:
    """Return the title of a page of HTML, or the text as it is."""
    start = text.lstrip()[:200].lower()
    if not start.startswith(("<!doctype html", "<html", "<head", "<body")):
        return text
    head = text[:8192]
    begin, end = head.lower().find("<title>"), head.lower().find("</title>")
    title = head[begin + 7 : end].strip() if 0 <= begin < end else ""
    return f"a page of HTML, '{title}'" if title else "a page of HTML"


def _line(text: str) -> str:
    redacted = redact_start(text.strip(), 4 * MAX_CHARS)
    return " ".join(redacted.split())[:MAX_CHARS].rstrip(". ")
