"""Trace ids, as W3C Trace Context has them, and correlation ids: what belongs together in several programs.

A trace id is 32 hexadecimal digits, the same in every program of a call. A correlation id is a text that a client chose
for what it does; where it chose none, the trace id takes its place. Both only find what belongs together. They give no
right, so any client may choose them.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, ParamSpec, TypeGuard, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

TRACEPARENT = "traceparent"
"""The header that has a caller's trace id (https://www.w3.org/TR/trace-context/)."""
CORRELATION_ID = "x-correlation-id"
"""The header of a message, or of a request, that has the correlation id."""
VARIABLES = {TRACEPARENT: "TRACEPARENT", CORRELATION_ID: "CALLBOARD_CORRELATION_ID"}
"""The variables of a program for the same; the first has the name that OpenTelemetry gives it."""
TRACE_ID = "X-Trace-Id"
"""The response header that has the trace id of its request."""
MAX_CHARS = 512
"""Characters of a ``traceparent`` that are read; a later version of the standard may add fields to its 55."""
MAX_CORRELATION_CHARS = 128
"""Characters of a correlation id."""
_TRACE_ID = re.compile(r"(?!0{32})[0-9a-f]{32}")
_TRACEPARENT = re.compile(r"(?!ff)([0-9a-f]{2})-((?!0{32})[0-9a-f]{32})-((?!0{16})[0-9a-f]{16})-[0-9a-f]{2}(-.*)?")
_UNKEPT = re.compile("[\0\ud800-\udfff]")
"""What databases and JSON cannot keep."""


@dataclass(frozen=True, slots=True)
class Trace:
    """What a context works on."""

    trace_id: str | None
    """None: a run of an earlier release, which kept none."""
    correlation_id: str | None = None
    """The one that a client chose; None: it chose none."""
    run_id: str | None = None
    parent_span: str | None = None
    """The caller's span, as its ``traceparent`` names it; None: it named none."""


_CURRENT: ContextVar[Trace | None] = ContextVar("callboard_trace", default=None)
_SPAN: ContextVar[str | None] = ContextVar("callboard_span_id", default=None)


# --- ids ------------------------------------------------------------------------------------------


def new_trace_id() -> str:
    """Return a random trace id."""
    return secrets.token_hex(16)


def new_span_id() -> str:
    """Return a random span id, of 16 hexadecimal digits."""
    return secrets.token_hex(8)


def span_id_of(id_: str) -> str:
    """Return the span id of a run or a step, which any process computes from its id: 16 hexadecimal digits."""
    return hashlib.sha256(id_.encode()).hexdigest()[:16]


def is_trace_id(text: object) -> TypeGuard[str]:
    """Return whether this is a trace id; 32 zeros are none."""
    return isinstance(text, str) and _TRACE_ID.fullmatch(text) is not None


def is_correlation_id(text: object) -> TypeGuard[str]:
    """Return whether this is a text that can be kept as a correlation id."""
    return isinstance(text, str) and 0 < len(text) <= MAX_CORRELATION_CHARS and not _UNKEPT.search(text)


def trace_id_of(traceparent: object) -> str | None:
    """Return the trace id of a ``traceparent`` header; None where it is missing or malformed, as the standard asks."""
    match = _fields_of(traceparent)
    return match[2] if match is not None else None


def parent_span_of(traceparent: object) -> str | None:
    """Return the caller's span id in a ``traceparent`` header; None where ``trace_id_of`` returns none."""
    match = _fields_of(traceparent)
    return match[3] if match is not None else None


def _fields_of(traceparent: object) -> re.Match[str] | None:
    if not isinstance(traceparent, str) or len(traceparent) > MAX_CHARS:
        return None
    match = _TRACEPARENT.fullmatch(traceparent.strip(" \t"))
    return None if match is None or (match[1] == "00" and match[4] is not None) else match


# --- headers --------------------------------------------------------------------------------------


def traceparent_of(trace_id: str, span_id: str | None = None) -> str:
    """Return the header that continues a trace, from this span, the one that is under way, or a new one.

    Its flag says that the trace is recorded: receivers that follow it would record nothing otherwise.
    """
    return f"00-{trace_id}-{span_id or current_span_id() or new_span_id()}-01"


def trace_headers(trace_id: str | None, correlation_id: str | None, span_id: str | None = None) -> dict[str, str]:
    """Return the headers of a message that continues a trace, from this span; none outside of one."""
    if trace_id is None:
        return {}
    return {TRACEPARENT: traceparent_of(trace_id, span_id), CORRELATION_ID: correlation_id or trace_id}


def trace_headers_in(headers: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers of a trace among those of a received message; malformed ones are left out."""
    traceparent, correlation_id = headers.get(TRACEPARENT), headers.get(CORRELATION_ID)
    by_name: dict[str, str] = {}
    if isinstance(traceparent, str) and trace_id_of(traceparent) is not None:
        by_name[TRACEPARENT] = traceparent
    if is_correlation_id(correlation_id):
        by_name[CORRELATION_ID] = correlation_id
    return by_name


def trace_variables() -> dict[str, str]:
    """Return the variables with which a program that is started continues the current trace."""
    return {VARIABLES[name]: value for name, value in current_headers().items()}


def trace_of_environment(environment: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Return the trace id and the correlation id of the program that started this one, where it named them."""
    trace_id, chosen = (environment.get(VARIABLES[name]) for name in (TRACEPARENT, CORRELATION_ID))
    trace = trace_id_of(trace_id)
    return trace, chosen if is_correlation_id(chosen) and chosen != trace else None


def parent_of_environment(environment: Mapping[str, str]) -> str | None:
    """Return the span of the program that started this one, where it named one."""
    return parent_span_of(environment.get(VARIABLES[TRACEPARENT]))


# --- the current trace ----------------------------------------------------------------------------


def current_trace() -> Trace | None:
    """Return what this context works on; None outside of a request and a run."""
    return _CURRENT.get()


def current_trace_id() -> str | None:
    """Return the trace id of the request or run that this context works on."""
    current = _CURRENT.get()
    return current.trace_id if current is not None else None


def current_span_id() -> str | None:
    """Return the span that is under way: of a call or an operation, otherwise of the run, otherwise the caller's."""
    current, span_id = _CURRENT.get(), _SPAN.get()
    if span_id is not None or current is None:
        return span_id
    return span_id_of(current.run_id) if current.run_id is not None else current.parent_span


def current_correlation_id() -> str | None:
    """Return the correlation id that a client chose for what this context works on; None where it chose none."""
    current = _CURRENT.get()
    return current.correlation_id if current is not None else None


def current_traceparent() -> str | None:
    """Return the header with which a request to another program continues the current trace; None outside of one."""
    trace_id = current_trace_id()
    return traceparent_of(trace_id) if trace_id is not None else None


def current_headers() -> dict[str, str]:
    """Return the headers with which a message to a program of the user's continues the current trace."""
    current = _CURRENT.get()
    return trace_headers(current.trace_id, current.correlation_id) if current is not None else {}


def trace_fields() -> Iterator[tuple[str, str]]:
    """Yield what log records and spans say of the current trace."""
    current = _CURRENT.get()
    if current is None:
        return
    if current.trace_id is not None:
        yield "trace_id", current.trace_id
    if current.correlation_id is not None:
        yield "correlation_id", current.correlation_id
    if current.run_id is not None:
        yield "run_id", current.run_id


def change_trace(trace_id: str) -> None:
    """Let the rest of this request work on another trace; ``traced`` ends it as it ends the one before."""
    current = _CURRENT.get() or Trace(None)
    if current.trace_id != trace_id:
        _CURRENT.set(replace(current, trace_id=trace_id, parent_span=None))


def correlate(correlation_id: object) -> None:
    """Let the rest of this request have a correlation id, if this is one."""
    if is_correlation_id(correlation_id):
        _CURRENT.set(replace(_CURRENT.get() or Trace(None), correlation_id=correlation_id))


@contextmanager
def traced(
    trace_id: str | None, correlation_id: str | None = None, run_id: str | None = None, parent_span: str | None = None
) -> Iterator[None]:
    """Let this context work on a trace, and afterwards on the one before; ``parent_span`` is the caller's."""
    is_any = trace_id is not None or correlation_id is not None or run_id is not None
    before = _CURRENT.set(Trace(trace_id, correlation_id, run_id, parent_span) if is_any else None)
    try:
        yield
    finally:
        _CURRENT.reset(before)


def in_trace(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Callable[[], T]:
    """Return the call of a function, which works on the trace of now whichever thread makes it."""
    current = _CURRENT.get()

    def call() -> T:
        before = _CURRENT.set(current)
        try:
            return function(*args, **kwargs)
        finally:
            _CURRENT.reset(before)

    return call


@contextmanager
def in_span(span_id: str | None = None) -> Iterator[str]:
    """Let this context work in a span of its trace, a new one by default, whose id is yielded; requests name it as
    their parent.
    """
    span_id = span_id or new_span_id()
    before = _SPAN.set(span_id)
    try:
        yield span_id
    finally:
        _SPAN.reset(before)
