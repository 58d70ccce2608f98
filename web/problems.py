"""What a door says when something is wrong: problem+json with a stable code and a sentence, never a traceback."""

from __future__ import annotations

import logging
from typing import Any

import orjson
from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException

from config.errors import CallboardError, PoolRefused, Retryable, RoomTaken, SettingInvalid
from config.ids import new_id
from config.redaction import redact

log = logging.getLogger(__name__)

RETRY_AFTER_S = 2
SAFE_FACTS = frozenset(
    {
        "agent_id",
        "run_id",
        "thread_id",
        "cursor",
        "last",
        "size",
        "limit",
        "field",
        "line",
        "found",
        "wanted",
        "approval_id",
        "decision",
        "by",
    }
)
"""Facts of an error that are shown beside its sentence; others may name what only this machine should know."""
OURS = (SettingInvalid, RoomTaken, PoolRefused)
"""Permanent, but the client cannot help it."""

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
    """Every error a request ends in is answered as a problem."""
    app.register_error_handler(CallboardError, of_error)
    app.register_error_handler(HTTPException, of_http)
    app.register_error_handler(Exception, of_surprise)


def problem(status: int, code: str, detail: str, **facts: Any) -> Response:
    """Return the answer that says what is wrong."""
    body = {
        "type": f"urn:callboard:problem:{code}",
        "title": code.replace("_", " ").capitalize(),
        "status": status,
        "code": code,
        "detail": redact(detail),
        **facts,
    }
    return Response(orjson.dumps(body), status, content_type="application/problem+json")


def of_error(wrong: CallboardError) -> Response:
    """Return the problem of an error we can name."""
    status = 500 if isinstance(wrong, OURS) else wrong.status
    if status >= 500:
        log.warning("request refused: %s", wrong, extra={"code": wrong.code, "path": request.path})
    facts = {name: value for name, value in wrong.facts.items() if name in SAFE_FACTS and value is not None}
    answer = problem(status, wrong.code, wrong.public, **facts)
    if isinstance(wrong, Retryable) or status == 503:
        answer.headers["Retry-After"] = str(wrong.facts.get("retry_after_s", RETRY_AFTER_S))
    return answer


def of_http(wrong: HTTPException) -> Response:
    """Return the problem of what the framework refused, with its own headers (Allow, Location)."""
    status = wrong.code or 500
    if status < 400:  # a redirect is raised too
        return Response(wrong.get_body(), status, wrong.get_headers())
    answer = of_status(status, wrong.description or wrong.name)
    for name, value in wrong.get_headers():
        if name.lower() not in ("content-type", "content-length"):
            answer.headers[name] = value
    return answer


def of_status(status: int, otherwise: str = "the server does not take such a request.", **facts: Any) -> Response:
    """Return the problem of a request that was refused before any door saw it."""
    code, sentence = SENTENCES.get(status, (f"http_{status}", otherwise))
    answer = problem(status, code, sentence, **facts)
    if status == 503:
        answer.headers["Retry-After"] = str(RETRY_AFTER_S)
    return answer


def of_surprise(wrong: Exception) -> Response:
    """Return the problem of a mistake of ours; the log has the traceback under the id the answer names."""
    error_id = new_id("err")
    log.error(
        "request failed: %s", type(wrong).__name__, exc_info=wrong,
        extra={"error_id": error_id, "method": request.method, "path": request.path},
    )  # fmt: skip
    sentence = f"something went wrong inside the server; its log has the details under {error_id}."
    return problem(500, "internal", sentence, error_id=error_id)
