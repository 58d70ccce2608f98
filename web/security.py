"""What is checked before authentication: our own host names, the origin of the page, no secret in the address.

Foreign pages may call this server if ``CALLBOARD_CORS_ORIGINS`` lists them. They authenticate with bearer tokens only:
our cookie on their requests is ignored, and no response allows credentials.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import unquote_plus

from flask import Flask, Response, request
from werkzeug.exceptions import NotFound

from config.egress.origins import host_of, listed, origin_of
from config.errors import BadRequest
from config.redaction import has_jwt
from config.settings import Settings
from web.errors import HOST_REFUSED, ORIGIN_REFUSED, SECRET_IN_ADDRESS

METHODS = ("GET", "HEAD", "POST", "PATCH", "DELETE")
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


def allow_foreign_page(answer: Response, origins: frozenset[str]) -> None:
    """Let the page that asked read the answer if its origin is listed; caches keep the answers of origins apart."""
    if not origins:
        return
    answer.vary.add("Origin")
    origin = request.headers.get("Origin")
    if origin in origins:
        answer.headers["Access-Control-Allow-Origin"] = origin
        answer.headers["Access-Control-Expose-Headers"] = ", ".join(RESPONSE_HEADERS)
        answer.headers["Cross-Origin-Resource-Policy"] = "cross-origin"


LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
MAX_BODY_BYTES = 2 * 1024 * 1024

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
FILE_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}
HEADERS = FILE_HEADERS | {
    "Content-Security-Policy": CONTENT_POLICY,
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}
HEADERS_OF_TYPES = dict.fromkeys(("text/javascript", "text/css"), FILE_HEADERS)
"""The rest is about documents, which browsers make of neither; repeated by the page's files it would be a sixth of its
first load."""


def register(app: Flask, settings: Settings) -> None:
    """Check every request's headers, and add the security headers to every response."""
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY_BYTES
    allowed = frozenset(settings.cors_origin_list)

    @app.before_request
    def check() -> Response | None:
        origin = request.environ.get("HTTP_ORIGIN")
        require_host(request.environ.get("HTTP_HOST", ""), settings)
        require_no_nul(request.environ)
        refuse_second_slash()
        if origin is None or is_own(origin, request.environ, settings):
            return None
        require_listed(origin, allowed)
        ignore_cookies()
        return preflight_answer() if is_preflight() else None

    @app.after_request
    def protect(answer: Response) -> Response:
        allow_foreign_page(answer, allowed)
        for name, value in HEADERS_OF_TYPES.get(answer.mimetype or "", HEADERS).items():
            answer.headers.setdefault(name, value)
        answer.headers.setdefault("Cache-Control", "no-store")
        return answer


def require_no_nul(environ: Mapping[str, Any]) -> None:
    """Refuse NUL in the URL and the headers, since Postgres cannot store it; web/calls/bodies.py checks bodies."""
    headers = (value for name, value in environ.items() if name.startswith("HTTP_"))
    if "%00" in environ.get("QUERY_STRING", "") or any("\0" in text for text in (environ["PATH_INFO"], *headers)):
        raise BadRequest("the address or a header has the character NUL; leave it out.")


def refuse_second_slash() -> None:
    """Let an address that begins with two slashes be unknown: a rule of a proxy for ``/v1/keys`` does not apply to it.

    The router drops the additional slashes and finds ``/v1/keys``.
    """
    if request.environ["PATH_INFO"].startswith("//"):
        request.url_rule, request.routing_exception = None, NotFound()


def require_host(host: str, settings: Settings) -> None:
    """Return if the Host header is one of our names.

    DNS rebinding: a foreign page can resolve its own name to 127.0.0.1, so that a browser takes this server for the
    page's; the Host header still has the foreign name.

    Raises:
        HOST_REFUSED: it is another name, missing or malformed.
    """
    name = name_in(host)
    if name in LOOPBACK or (settings.serves_others and name and is_offered(name, settings)):
        return
    raise HOST_REFUSED(
        f"the host '{host[:80]}' is not one this server answers to; use 127.0.0.1 or localhost, or name it in "
        "CALLBOARD_ALLOWED_HOSTS (read with CALLBOARD_AUTH=required, or with --no-auth).",
        host=host[:80],
    )


def name_in(host: str) -> str:
    """Return the host of a Host header without its port; empty if no page can have an origin of it."""
    with suppress(ValueError):
        return host_of(origin_of(f"http://{host}"))
    return ""


def is_offered(name: str, settings: Settings) -> bool:
    """Return whether a server that other machines reach accepts this name.

    Names are ``allowed_hosts`` and that of ``public_url``; without ``allowed_hosts`` any IP address is accepted.
    """
    allowed = {part.lower() for part in listed(settings.allowed_hosts)}
    if name in allowed or name == host_of(settings.public_url or ""):
        return True
    try:  # an IP address cannot be rebound
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return not allowed


def is_own(origin: str, environ: Mapping[str, Any], settings: Settings) -> bool:
    """Return whether the origin is that of our own page."""
    return origin.lower() in own_origins(environ, settings)


def own_origins(environ: Mapping[str, Any], settings: Settings) -> set[str]:
    """Return the origins of our own page, as far as this request can have come from it.

    Without a public URL a request over HTTP may have come through a proxy that ends TLS, with the Host header that
    users see. One over HTTPS cannot come from a page over HTTP, which others on the network could have written.
    """
    host, scheme = environ.get("HTTP_HOST", ""), environ["wsgi.url_scheme"]
    public = settings.public_url
    if public is not None and name_in(host) == host_of(public):
        return {public}
    schemes = {scheme, "https"} if public is None else {scheme}
    with suppress(ValueError):
        return {origin_of(f"{each}://{host}") for each in schemes} | ({public} if public else set())
    return set()


def require_listed(origin: str, allowed: frozenset[str]) -> None:
    """Refuse another page's or an opaque (``null``) origin; browsers send one with each request that changes data."""
    if origin not in allowed:
        problem = f"requests from pages of '{origin[:80]}' are not answered; open Callboard's own page instead."
        raise ORIGIN_REFUSED(problem, origin=origin[:80])


NAMED = re.compile(
    r"(?:^|[&;])(?:api[_-]?key|access[_-]?token|auth[_-]?token|id[_-]?token|token|jwt|bearer|authorization)=",
    re.IGNORECASE,
)
SECRET = re.compile(r"cb[gkls]_[0-9A-Za-z_]{16,}")
MOST_TIMES = 4
"""How many times an address may have been encoded for a secret in it to be found."""
CALLBACK = "/auth/callback"
"""Where identity providers send people with a code, which is a JWT at some of them."""


def require_no_secret(environ: Mapping[str, Any]) -> None:
    """Return if no part of the address has a key or a token.

    The target of the request has what path and query lack: a fragment, which browsers do not send and other clients
    may, and the login of an absolute address.

    Raises:
        SECRET_IN_ADDRESS: it has one, or a parameter named like one; the message does not repeat it.
    """
    query, path, target = (_decoded(environ.get(name, "")) for name in ("QUERY_STRING", "PATH_INFO", "RAW_URI"))
    fragment = _decoded(environ.get("RAW_URI", "").partition("#")[2])
    if any(NAMED.search(text) for text in (query, fragment)):
        raise SECRET_IN_ADDRESS()
    if any(SECRET.search(text) for text in (query, path, target)):
        raise SECRET_IN_ADDRESS()
    if path != CALLBACK and any(has_jwt(text) for text in (query, path, target)):
        raise SECRET_IN_ADDRESS()


def _decoded(text: str) -> str:
    """Return a part of an address decoded, also where a client encoded it more than once."""
    for _ in range(MOST_TIMES):
        if "%" not in text:
            break
        text = unquote_plus(text)
    return text
