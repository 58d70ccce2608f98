"""The trace id of each request: its ``traceparent``'s or a new one, in the response and in the log records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from flask import Flask, Response

from config.tracing import TRACE_ID, current_trace_id, new_trace_id, trace_id_of, traced

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication


class Traced:
    """Middleware: handles each request in a trace, which ends when the application returns the response.

    A stream continues on the loop, outside of it: what is logged of its viewer has the trace id by ``log_fields``.
    """

    def __init__(self, app: WSGIApplication) -> None:
        self._app = app

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        with traced(trace_id_of(environ.get("HTTP_TRACEPARENT")) or new_trace_id()):
            return self._app(environ, start_response)


def register(app: Flask) -> None:
    """Add the header ``X-Trace-Id`` to every response, also to streams, whose head other code sends."""
    app.after_request(_name_trace)


def _name_trace(answer: Response) -> Response:
    answer.headers[TRACE_ID] = current_trace_id() or new_trace_id()
    return answer
