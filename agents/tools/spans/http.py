"""What a span says of an HTTP request and its answer: never credentials, and bodies only where they are text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

from agents.tools.spans.collector import MAX_TEXT, Span, span_if_collecting
from config.egress.exchange import HttpAnswer
from config.egress.request import Outgoing
from config.redaction import REDACTED, redact_start

MAX_HEADERS = 20
MAX_HEADER = 200
"""Characters of one header's value."""
_SECRET = re.compile(r"auth|token|secret|passw|cookie|credential|signature|api-?key|^x-amz-security", re.IGNORECASE)
_TEXT = re.compile(r"^(?:text/|application/(?:json|xml|x-www-form-urlencoded|graphql|problem\+json)|.*\+(?:json|xml))")


@contextmanager
def request_span(request: Outgoing) -> Iterator[Callable[[HttpAnswer], None]]:
    """Note a request of ours as an operation of the call that it is made in, if any: ``egress.fetch.Fetcher.span``."""
    url = str(request.target)
    with span_if_collecting("http", named(request.method, url), method=request.method, url=url) as operation:
        if operation is None:
            yield lambda _answer: None
            return
        note_request(operation, dict(request.headers), request.body)
        yield lambda answer: note_answer(operation, answer.status, answer.headers, answer.body)


def named(method: str, url: str) -> str:
    """Return the name of a request's span: its method and its host."""
    try:
        return f"{method} {urlsplit(url).hostname or ''}".strip()
    except ValueError:
        return method


def shown_headers(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the first headers, with those that hold credentials replaced."""
    by_name: dict[str, str] = {}
    for name, value in headers:
        if len(by_name) == MAX_HEADERS:
            break
        hidden = REDACTED if _SECRET.search(name) else redact_start(str(value), MAX_HEADER)
        by_name[str(name)[:100].lower()] = hidden
    return by_name


def shown_body(body: bytes | str | None, content_type: str) -> str | None:
    """Return the beginning of a body that is text, or its size; None without a body."""
    if not body:
        return None
    if not _TEXT.match(content_type.lower()):
        return f"({len(body):,} bytes)"
    text = body if isinstance(body, str) else body[: 4 * MAX_TEXT].decode("utf-8", "replace")
    return redact_start(text, MAX_TEXT)


def note_request(span: Span, headers: Mapping[str, str] | None, body: Any) -> None:
    """Add what is sent; what cannot be read of a foreign library's objects is left out."""
    with suppress(Exception):
        _note_request(span, headers, body)


def note_answer(span: Span, status: int, headers: Mapping[str, str], body: Any = None) -> None:
    """Add an answer; ``body`` is None where it is streamed, or not read yet."""
    with suppress(Exception):
        _note_answer(span, status, headers, body)


def _note_request(span: Span, headers: Mapping[str, str] | None, body: Any) -> None:
    by_name = {str(name): str(value) for name, value in (headers or {}).items()}
    kind = next((value for name, value in by_name.items() if name.lower() == "content-type"), "")
    span.facts["request_headers"] = shown_headers(by_name.items())
    if isinstance(body, bytes | str):
        span.facts["request_body"] = shown_body(body, kind)


def _note_answer(span: Span, status: int, headers: Mapping[str, str], body: Any) -> None:
    by_name = {str(name): str(value) for name, value in headers.items()}
    kind = next((value for name, value in by_name.items() if name.lower() == "content-type"), "")
    span.facts |= {"status": status, "response_headers": shown_headers(by_name.items())}
    if isinstance(body, bytes | str):
        span.facts["response_body"] = shown_body(body, kind)
