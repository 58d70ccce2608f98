"""CORS: which foreign pages may call this server, as ``CALLBOARD_CORS_ORIGINS`` lists them.

They authenticate with bearer tokens only. Our cookie on their requests is ignored, and no response allows credentials.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Response, request

METHODS = ("GET", "HEAD", "POST", "DELETE")
OF_MCP = ("Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name")
"""What clients of MCP send with each request."""
REQUEST_HEADERS = (
    *("Authorization", "Content-Type", "Idempotency-Key", "If-None-Match", "Last-Event-ID", "Prefer", "traceparent"),
    *OF_MCP,
)
RESPONSE_HEADERS = ("Location", "Retry-After", "ETag", "X-Run-Id", "X-Trace-Id", "WWW-Authenticate")
"""Those that a page may read besides the few that it always may, such as Content-Type."""
FOREIGN = "callboard.foreign"
"""In the environ of a foreign page's request."""
PREFLIGHT_S = 600
"""How long a browser may remember a preflight's answer."""


def is_preflight() -> bool:
    """Return whether a browser asks, before the request itself, if a page may send it."""
    return request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers


def preflight_answer() -> Response:
    """Return the answer to a preflight of an allowed origin, the same for every address."""
    answer = Response(status=204)
    answer.headers["Access-Control-Allow-Methods"] = ", ".join(METHODS)
    answer.headers["Access-Control-Allow-Headers"] = ", ".join(REQUEST_HEADERS)
    answer.headers["Access-Control-Max-Age"] = str(PREFLIGHT_S)
    return answer


def ignore_cookies() -> None:
    """Remove the cookies of this request, which its page cannot have been meant to use."""
    request.environ.pop("HTTP_COOKIE", None)
    request.environ[FOREIGN] = True


def is_foreign(environ: Mapping[str, Any]) -> bool:
    """Return whether a foreign page sent this request; what a browser adds by itself does not identify its reader."""
    return FOREIGN in environ


def allow(answer: Response, origins: frozenset[str]) -> None:
    """Let the page that asked read the answer if its origin is listed; caches keep the answers of origins apart."""
    if not origins:
        return
    answer.vary.add("Origin")
    origin = request.headers.get("Origin")
    if origin in origins:
        answer.headers["Access-Control-Allow-Origin"] = origin
        answer.headers["Access-Control-Expose-Headers"] = ", ".join(RESPONSE_HEADERS)
        answer.headers["Cross-Origin-Resource-Policy"] = "cross-origin"
