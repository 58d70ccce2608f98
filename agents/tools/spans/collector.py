"""Collects the spans of the call that this task or thread is in; outside of a call it does nothing.

The call is known by a context variable, which tasks and tools' threads inherit. A thread that a tool starts by itself
does not: its operations are not collected.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

import orjson

from config.clock import stamp
from config.egress.exchange import HttpAnswer
from config.egress.request import Outgoing
from config.redaction import REDACTED, redact_start
from config.tracing import current_trace_id, in_span

MAX_SPANS = 100
"""Spans of one call; later ones are counted."""
MAX_BYTES = 64 * 1024
"""Bytes of a call's spans as JSON; spans beyond are counted."""
MAX_TEXT = 2000
"""Characters of a statement, a body, an address or a path."""
SpanKind = Literal["http", "sql", "file"]


@dataclass(kw_only=True, slots=True)
class Span:
    """One operation, as long as it is under way."""

    kind: SpanKind
    name: str
    """What was done, in a few words: ``GET example.org``, ``SELECT``, ``read notes.txt``."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Fields of its kind, such as ``url``, ``statement`` or ``path``: JSON data."""
    started_at: str = ""
    error: str | None = None
    """The name of the exception that ended it."""
    span_id: str = ""
    """Of W3C Trace Context, 16 hexadecimal digits: what a request of the span names as its parent."""
    _began_s: float = 0.0
    duration_ms: float = 0.0

    def begin(self) -> None:
        self.started_at, self._began_s = stamp(), time.monotonic()

    def end(self) -> None:
        self.duration_ms = round((time.monotonic() - self._began_s) * 1000, 3)

    def as_json(self) -> dict[str, Any]:
        """Return it as it is stored and sent, without secrets."""
        fields: dict[str, Any] = {"kind": self.kind, "name": self.name[:200], "started_at": self.started_at}
        ids = {"trace_id": current_trace_id(), "span_id": self.span_id}
        fields |= {"duration_ms": self.duration_ms, **ids, **self.facts, "error": self.error}
        return {name: shorten(value) for name, value in fields.items() if value is not None}


def shorten(value: Any) -> Any:
    """Return a text without secrets and of bounded length; a mapping of texts likewise; other values as they are."""
    if isinstance(value, str):
        return redact_start(value, MAX_TEXT).encode("utf-8", "replace").decode()  # paths may have lone surrogates
    return {name: shorten(item) for name, item in value.items()} if isinstance(value, Mapping) else value


class SpanCollector:
    """The spans of one call; safe for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spans: list[dict[str, Any]] = []
        self._bytes = self._dropped = 0
        self._is_open = True

    def add(self, span: Span) -> None:
        """Keep an operation that is over; what ends after the call does not count."""
        try:
            data = span.as_json()
            size = len(orjson.dumps(data))
        except Exception:  # an object of a foreign library; the operation itself has been done
            data, size = {}, MAX_BYTES
        with self._lock:
            if not self._is_open:
                return
            if len(self._spans) >= MAX_SPANS or self._bytes + size > MAX_BYTES:
                self._dropped += 1
                return
            self._spans.append(data)
            self._bytes += size

    def close(self) -> list[dict[str, Any]]:
        """Return the spans in the order in which they ended; the last one says how many were left out."""
        with self._lock:
            self._is_open = False
            if not self._dropped:
                return [*self._spans]
            return [*self._spans, {"kind": "left_out", "name": f"{self._dropped} more", "count": self._dropped}]


_collector: ContextVar[SpanCollector | None] = ContextVar("callboard_spans", default=None)
_inside: ContextVar[frozenset[SpanKind]] = ContextVar("callboard_span_kinds", default=frozenset())


@contextmanager
def collecting() -> Iterator[SpanCollector]:
    """Collect what this task, its threads and its tasks do in the body."""
    collector = SpanCollector()
    token = _collector.set(collector)
    try:
        yield collector
    finally:
        _collector.reset(token)


def is_collecting(kind: SpanKind) -> bool:
    """Return whether an operation of this kind is to be noted: in a call, and not inside another of the kind.

    A library that is built on another one, as requests is on urllib3, makes one span.
    """
    return _collector.get() is not None and kind not in _inside.get()


@contextmanager
def span(kind: SpanKind, name: str, **facts: Any) -> Iterator[Span]:
    """Note the body as one operation; to be used where ``is_collecting`` says so.

    The body may add facts. An exception ends the span with its name, and passes.
    """
    collector, open_span = _collector.get(), Span(kind=kind, name=name, facts=facts)
    token = _inside.set(_inside.get() | {kind})
    open_span.begin()
    try:
        with in_span() as open_span.span_id:
            yield open_span
    except BaseException as error:
        open_span.error = type(error).__name__
        raise
    finally:
        open_span.end()
        _inside.reset(token)
        if collector is not None:
            collector.add(open_span)


@contextmanager
def span_if_collecting(kind: SpanKind, name: str, **facts: Any) -> Iterator[Span | None]:
    """Note the body as one operation, where one is to be noted; else do nothing."""
    if not is_collecting(kind):
        yield None
        return
    with span(kind, name, **facts) as open_span:
        yield open_span


# --- spans of requests


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


def statement_name(statement: str) -> str:
    """Return the name of a statement's span: its first word."""
    words = statement[:2000].lstrip("( \t\r\n").split(None, 1)
    return words[0].upper()[:20] if words else "SQL"
