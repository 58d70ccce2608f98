"""Error responses: problem+json with a stable code and a message, never a traceback."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import orjson
from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException

from config.errors import BadRequest, CallboardError, ErrorKind, Internal
from config.ids import new_id
from config.redaction import redact
from config.tracing import current_trace_id
from web.errors import (
    EXPECT_REFUSED,
    HEADERS_TOO_LARGE,
    MEDIA_TYPE_REFUSED,
    METHOD_NOT_ALLOWED,
    NOT_FOUND,
    REQUEST_BODY_TOO_LARGE,
    REQUEST_TIMEOUT,
    TRANSFER_ENCODING_REFUSED,
    URI_TOO_LONG,
    Overloaded,
    is_exhausted,
)

log = logging.getLogger(__name__)

RETRY_AFTER_S = 2
SAFE_FACTS = frozenset(
    """
    agent_id run_id thread_id cursor last size limit field line found wanted approval_id decision by pending reasons
    """.split()
)
"""Facts of an error that the response includes; others may reveal details of this machine."""
BY_STATUS: Mapping[int, ErrorKind] = {
    kind.status: kind
    for kind in (
        *(
            BadRequest,
            NOT_FOUND,
            METHOD_NOT_ALLOWED,
            REQUEST_TIMEOUT,
            REQUEST_BODY_TOO_LARGE,
            URI_TOO_LONG,
            MEDIA_TYPE_REFUSED,
        ),
        *(EXPECT_REFUSED, HEADERS_TOO_LARGE, Internal, TRANSFER_ENCODING_REFUSED, Overloaded),
    )
}
"""The errors of requests that no function saw, of which the server knows the status alone."""


def register(app: Flask) -> None:
    """Register the handlers that answer every error with a problem."""
    app.register_error_handler(CallboardError, of_error)
    app.register_error_handler(HTTPException, of_http)
    app.register_error_handler(Exception, of_unexpected)


def problem(
    status: int, code: str, detail: str, *, retryable: bool, retry_after_s: float = RETRY_AFTER_S, **facts: Any
) -> Response:
    """Return a problem; one that is ``retryable`` says when to try again."""
    body = {
        "type": f"urn:callboard:problem:{code}",
        "title": code.replace("_", " ").capitalize(),
        "status": status,
        "code": code,
        "detail": redact(detail),
        "retryable": retryable,
        **facts,
    }
    if (trace_id := current_trace_id()) is not None:
        body["trace_id"] = trace_id
    answer = Response(orjson.dumps(body), status, content_type="application/problem+json")
    if retryable:
        answer.headers["Retry-After"] = str(retry_after_s)
    return answer


def of_error(error: CallboardError) -> Response:
    if error.status >= 500:
        log.warning("request refused: %s", error, extra={"code": error.code, "path": request.path})
    return problem_of(error)


def problem_of(error: CallboardError) -> Response:
    """Return the problem of an error, also where no request is being handled."""
    safe_facts = {name: value for name, value in error.facts.items() if name in SAFE_FACTS and value is not None}
    facts = {name: redact(value) if isinstance(value, str) else value for name, value in safe_facts.items()}
    pause_s = error.facts.get("retry_after_s", RETRY_AFTER_S)
    answer = problem(error.status, error.code, error.public, retryable=error.retryable, retry_after_s=pause_s, **facts)
    if error.status == 401:
        answer.headers["WWW-Authenticate"] = "Bearer"
    return answer


def of_http(error: HTTPException) -> Response:
    """Return the problem of an error of the framework, with its headers (Allow, Location)."""
    answer = of_status(error.code or 500, error.description or error.name)
    for name, value in error.get_headers():
        if name.lower() not in ("content-type", "content-length"):
            answer.headers[name] = value
    return answer


def of_status(status: int, otherwise: str = "", *, sentence: str | None = None, **facts: Any) -> Response:
    """Return the problem of a request that no function saw; ``otherwise`` is said of a status that is not ours."""
    kind = BY_STATUS.get(status)
    if kind is None:
        otherwise = otherwise or "the server does not take such a request."
        return problem(status, f"http_{status}", sentence or otherwise, retryable=False, **facts)
    return problem(status, kind.code, sentence or kind.text, retryable=kind.retryable, **facts)


def of_unexpected(error: Exception) -> Response:
    """Return the problem of a bug; the log has the traceback under the response's error id.

    A process without a free file has no bug; its client is asked to try again.
    """
    if is_exhausted(error):
        return of_error(Overloaded())
    error_id = new_id("err")
    facts = {"error_id": error_id, "method": request.method, "path": request.path}
    log.error("request failed: %s", type(error).__name__, exc_info=error, extra=facts)
    sentence = f"something went wrong inside the server; its log has the details under {error_id}."
    return problem(500, Internal.code, sentence, retryable=Internal.retryable, error_id=error_id)
