"""Answers to what never reaches the application, in the application's own form."""

from __future__ import annotations

import logging
from typing import Any

from gunicorn.http import errors

from config.ids import new_id
from web.server.incoming import BodyTooLarge

log = logging.getLogger(__name__)

STATUSES: tuple[tuple[type[Exception], int], ...] = (
    (errors.LimitRequestLine, 414),
    (errors.LimitRequestHeaders, 431),
    (errors.UnsupportedTransferCoding, 501),
    (errors.ExpectationFailed, 417),
    (BodyTooLarge, 413),
)


def refusal_of(wrong: Exception) -> bytes:
    """Return the answer to a request that cannot be read, or whose answer failed inside the server."""
    is_ours = isinstance(wrong, errors.InvalidResponseHeader | errors.InvalidResponseHeaderName)
    if isinstance(wrong, errors.ParseException | BodyTooLarge) and not is_ours:
        log.info("request refused: %s", type(wrong).__name__)
        return refusal(next((status for kind, status in STATUSES if isinstance(wrong, kind)), 400))
    error_id = new_id("err")
    log.error("request failed: %s", type(wrong).__name__, exc_info=wrong, extra={"error_id": error_id})
    return refusal(500, error_id=error_id)


def refusal(status: int, **facts: Any) -> bytes:
    """Return a whole answer, with ``Connection: close``."""
    from web.problems import of_status  # not in the arbiter, which imports this module and serves nothing
    from web.security import HEADERS

    answer = of_status(status, **facts)
    answer.headers.extend({**HEADERS, "Cache-Control": "no-store", "Connection": "close"})
    lines = [f"HTTP/1.1 {answer.status}", *(f"{name}: {value}" for name, value in answer.headers)]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + answer.get_data()
