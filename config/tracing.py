"""Trace ids, as W3C Trace Context has them: 32 hexadecimal digits, the same in every program of a call.

A trace id only finds log records and answers that belong together. It gives no right, so any client may choose it.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

TRACEPARENT = "traceparent"
"""The request header that has a caller's trace id (https://www.w3.org/TR/trace-context/)."""
TRACE_ID = "X-Trace-Id"
"""The response header that has the trace id of its request."""
MAX_CHARS = 512
"""Characters of a ``traceparent`` that are read; a later version of the standard may add fields to its 55."""
_TRACE_ID = re.compile(r"(?!0{32})[0-9a-f]{32}")
_TRACEPARENT = re.compile(r"(?!ff)([0-9a-f]{2})-((?!0{32})[0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")
_CURRENT: ContextVar[str | None] = ContextVar("callboard_trace_id", default=None)


def new_trace_id() -> str:
    """Return a random trace id."""
    return secrets.token_hex(16)


def is_trace_id(text: object) -> bool:
    """Return whether this is a trace id; 32 zeros are none."""
    return isinstance(text, str) and _TRACE_ID.fullmatch(text) is not None


def trace_id_of(traceparent: str | None) -> str | None:
    """Return the trace id of a ``traceparent`` header; None where it is missing or malformed, as the standard asks."""
    if traceparent is None or len(traceparent) > MAX_CHARS:
        return None
    found = _TRACEPARENT.fullmatch(traceparent.strip(" \t"))
    if found is None or (found[1] == "00" and found[3] is not None):
        return None
    return found[2]


def current_trace_id() -> str | None:
    """Return the trace id of the request or run that this context works on."""
    return _CURRENT.get()


def change_trace(trace_id: str) -> None:
    """Let the rest of this request work on another trace; ``traced`` ends it as it ends the one before."""
    _CURRENT.set(trace_id)


@contextmanager
def traced(trace_id: str | None) -> Iterator[None]:
    """Let this context work on a trace, and afterwards on the one before."""
    before = _CURRENT.set(trace_id)
    try:
        yield
    finally:
        _CURRENT.reset(before)
