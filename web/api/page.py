"""The page: its shells, revalidated by their ETags, and the files they name, which browsers keep for ever."""

from __future__ import annotations

from flask import Blueprint, Response, request
from werkzeug.exceptions import NotFound

from web.page_files import page_files
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
    answer = files.shells[name].answer()
    answer.headers["Content-Security-Policy"] = CONTENT_POLICY.replace(
        "script-src 'self'", f"script-src 'self' {files.script_source}"
    )
    return answer
