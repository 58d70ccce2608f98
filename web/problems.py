"""Error responses: problem+json with a stable code and a message, never a traceback."""

from __future__ import annotations

import logging
from typing import Any

import orjson
from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException

from bus.errors import PoolRefused
from config.errors import CallboardError, Retryable, RoomTaken, SettingInvalid
from config.ids import new_id
from config.redaction import redact

log = logging.getLogger(__name__)

RETRY_AFTER_S = 2
SAFE_FACTS = frozenset(
    "agent_id run_id thread_id cursor last size limit field line found wanted approval_id decision by".split()
)
"""Facts of an error that the response includes; others may reveal details of this machine."""
SERVER_ERRORS = (SettingInvalid, RoomTaken, PoolRefused)
"""Permanent errors that the client did not cause."""

SENTENCES = {
    400: ("bad_request", "the request cannot be read; send a plain HTTP request with a JSON body."),
    404: ("not_found", "there is nothing at this address; docs/http.md lists what there is."),
    405: ("method_not_allowed", "this address does not take that method; the Allow header says which it takes."),
    408: ("request_timeout", "the request did not arrive in time; send it again."),
    413: ("body_too_large", "the body is larger than 2 MiB; put long material in a file the agent can read."),
    414: ("uri_too_long", "the request line is longer than 4094 bytes; send long values in a body."),
    415: ("media_type_refused", "send JSON, with the header Content-Type: application/json."),
    431: ("headers_too_large", "the headers are too many or too long: 100, of 8190 bytes each, 64 KiB in all."),
    500: ("internal", "something went wrong inside the server; its log has the details under the error_id."),
    503: ("overloaded", "too much is being sent to this server at once; send the request again in a moment."),
}


def register(app: Flask) -> None:
    """Register the handlers that answer every error with a problem."""
    app.register_error_handler(CallboardError, of_error)
    app.register_error_handler(HTTPException, of_http)
    app.register_error_handler(Exception, of_unexpected)


def problem(status: int, code: str, detail: str, **facts: Any) -> Response:
    body = {
        "type": f"urn:callboard:problem:{code}",
        "title": code.replace("_", " ").capitalize(),
        "status": status,
        "code": code,
        "detail": redact(detail),
        **facts,
    }
    return Response(orjson.dumps(body), status, content_type="application/problem+json")


def of_error(error: CallboardError) -> Response:
    status = 500 if isinstance(error, SERVER_ERRORS) else error.status
    if status >= 500:
        log.warning("request refused: %s", error, extra={"code": error.code, "path": request.path})
    shown = {name: value for name, value in error.facts.items() if name in SAFE_FACTS and value is not None}
    facts = {name: redact(value) if isinstance(value, str) else value for name, value in shown.items()}
    answer = problem(status, error.code, error.public, **facts)
    if isinstance(error, Retryable) or status == 503:
        answer.headers["Retry-After"] = str(error.facts.get("retry_after_s", RETRY_AFTER_S))
    if status == 401:
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
    """Return the problem of a request that no handler saw."""
    code, usual = SENTENCES.get(status, (f"http_{status}", otherwise or "the server does not take such a request."))
    answer = problem(status, code, sentence or usual, **facts)
    if status == 503:
        answer.headers["Retry-After"] = str(RETRY_AFTER_S)
    return answer


def of_unexpected(error: Exception) -> Response:
    """Return the problem of a bug; the log has the traceback under the response's error id."""
    error_id = new_id("err")
    facts = {"error_id": error_id, "method": request.method, "path": request.path}
    log.error("request failed: %s", type(error).__name__, exc_info=error, extra=facts)
    sentence = f"something went wrong inside the server; its log has the details under {error_id}."
    return problem(500, "internal", sentence, error_id=error_id)
