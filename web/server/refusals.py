"""Error responses to requests that never reach the application, in the application's format."""

from __future__ import annotations

import logging
from typing import Any

from gunicorn.http import errors

from config.ids import new_id
from config.tracing import TRACE_ID, current_trace_id, new_trace_id, traced
from web.server.incoming import BodyTooLarge, TooManyChunks

log = logging.getLogger(__name__)

STATUSES: tuple[tuple[type[Exception], int], ...] = (
    (errors.LimitRequestLine, 414),
    (errors.LimitRequestHeaders, 431),
    (errors.UnsupportedTransferCoding, 501),
    (errors.ExpectationFailed, 417),
    (BodyTooLarge, 413),
)


def refusal_of(error: Exception, trace_id: str | None = None) -> bytes:
    """Return the response to a request that cannot be parsed, or whose handling failed inside the server.

    ``trace_id`` is the one that the request names, where its head could be read.
    """
    with traced(trace_id or current_trace_id() or new_trace_id()):
        return _refusal_of(error)


def _refusal_of(error: Exception) -> bytes:
    is_ours = isinstance(error, errors.InvalidResponseHeader | errors.InvalidResponseHeaderName)
    if isinstance(error, errors.ParseException | BodyTooLarge) and not is_ours:
        log.info("request refused: %s", type(error).__name__)
        status = next((status for kind, status in STATUSES if isinstance(error, kind)), 400)
        return refusal(status, error.sentence if isinstance(error, TooManyChunks) else None)
    error_id = new_id("err")
    log.error("request failed: %s", type(error).__name__, exc_info=error, extra={"error_id": error_id})
    return refusal(500, error_id=error_id)


def refusal(status: int, sentence: str | None = None, trace_id: str | None = None, **facts: Any) -> bytes:
    """Return a complete response with ``Connection: close``; ``sentence`` replaces the status's own message."""
    from web.problems import of_status  # not in the arbiter, which imports this module and serves nothing
    from web.security import HEADERS

    trace_id = trace_id or current_trace_id() or new_trace_id()
    with traced(trace_id):
        answer = of_status(status, sentence=sentence, **facts)
    answer.headers.extend({**HEADERS, TRACE_ID: trace_id, "Cache-Control": "no-store", "Connection": "close"})
    lines = [f"HTTP/1.1 {answer.status}", *(f"{name}: {value}" for name, value in answer.headers)]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + answer.get_data()
