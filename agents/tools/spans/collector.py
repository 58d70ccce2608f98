"""Collects the spans of the call that this task or thread is in; outside of a call it does nothing.

The call is known by a context variable, which tasks and tools' threads inherit. A thread that a tool starts by itself
does not: its operations are not collected.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson

from config.clock import stamp
from config.redaction import redact_start
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
