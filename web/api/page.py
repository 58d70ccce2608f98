"""What every reader gets alike: the page, and the description of the calls for programs.

The page's shells are revalidated by their ETags; browsers keep the files that they name for ever.
"""

from __future__ import annotations

import threading
from typing import Any

import orjson
from flask import Blueprint, Response, current_app, request
from pydantic import ConfigDict
from werkzeug.exceptions import NotFound

from config.forks import after_fork
from web.calls.call import call
from web.calls.document import document as document_of
from web.calls.fields import Answer
from web.page_files import FixedBody, page_files
from web.problems import of_http
from web.process import current_process
from web.security import CONTENT_POLICY

page = Blueprint("page", __name__)

YEAR_S = 31_536_000


@page.get("/")
def index() -> Response:
    return _shell("index.html")


@page.get("/auth/callback")
def callback() -> Response:
    """Return the page, which finishes the sign-in: only its own script can know that this browser began it."""
    return _shell("index.html")


@page.get("/docs")
def reference() -> Response:
    """Return the page that shows the calls to readers, made of /openapi.json in the browser."""
    return _shell("reference.html")


@page.get("/favicon.ico")
def icon() -> Response:
    """Return the icon that browsers request by default."""
    return static_file("favicon.svg")


@page.app_errorhandler(404)
def nowhere(error: NotFound) -> Response:
    """Return a page to a person whose address leads nowhere, and a problem to a program."""
    is_of_calls = request.path.startswith(("/v1/", "/static/")) or request.method != "GET"
    kinds = ["application/problem+json", "application/json", "text/html"]
    if is_of_calls or request.accept_mimetypes.best_match(kinds) != "text/html":
        return of_http(error)
    answer = _shell("404.html")
    answer.status_code = 404
    return answer


@page.get("/static/<path:name>")
def static_file(name: str) -> Response:
    """Return a file of the page; with the ``?v=`` of its content it may be kept for ever."""
    file = page_files().files.get(name)
    if file is None:
        raise NotFound
    is_this = request.args.get("v") == file.version
    return file.answer(f"max-age={YEAR_S}, immutable" if is_this else "no-cache")


def _shell(name: str) -> Response:
    files = page_files()
    files.refresh()
    files.compress_further(current_process().settings.state / "page")
    answer = files.shells[name].answer()
    answer.headers["Content-Security-Policy"] = CONTENT_POLICY.replace(
        "script-src 'self'", f"script-src 'self' {files.script_source}"
    )
    return answer


class OpenApi(Answer):
    """An OpenAPI 3.1 document."""

    model_config = ConfigDict(extra="allow")

    openapi: str
    info: dict[str, Any]
    paths: dict[str, Any]


document = Blueprint("document", __name__)

KEY = "callboard-openapi"
_making = threading.Lock()
"""Threads that ask at once wait for the first one's: CPython 3.11 raises SystemError where two parse Python at once, as
``docstrings`` does."""


@after_fork
def _renew() -> None:
    global _making
    _making = threading.Lock()


@document.get("/openapi.json")
@call({200: OpenApi, 304: None})
def openapi() -> Response:
    """Return this document: OpenAPI 3.1, made of the code that serves the calls."""
    with _making:
        body: FixedBody | None = current_app.extensions.get(KEY)
        if body is None:
            content = orjson.dumps(document_of(current_app))
            body = current_app.extensions[KEY] = FixedBody(content, "application/json")
    return body.answer()
