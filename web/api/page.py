"""The page: the files of ``web/static``, revalidated by their ETags."""

from __future__ import annotations

from pathlib import Path

from flask import Blueprint, Response, request
from werkzeug.exceptions import NotFound
from werkzeug.security import safe_join

page = Blueprint("page", __name__)

STATIC = Path(__file__).resolve().parent.parent / "static"
TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""Fixed, since guesses differ between machines; files with other suffixes are not served."""
YEAR_S = 31_536_000


@page.get("/")
def index() -> Response:
    return _file("index.html")


@page.get("/auth/callback")
def callback() -> Response:
    """Return the page, which finishes the sign-in: only its own script can know that this browser began it."""
    return _file("index.html")


@page.get("/docs")
def reference() -> Response:
    """Return the page that shows the calls to readers, made of /openapi.json in the browser."""
    return _file("reference.html")


@page.get("/favicon.ico")
def icon() -> Response:
    """Return the icon that browsers request by default."""
    return _file("favicon.svg")


@page.get("/static/<path:name>")
def static_file(name: str) -> Response:
    """Return a file of the page; with ``?v=`` in its URL it may be cached for ever."""
    return _file(name, kept="v" in request.args)


def _file(name: str, kept: bool = False) -> Response:
    kind = TYPES.get(Path(name).suffix)
    if kind is None:
        raise NotFound
    path = safe_join(str(STATIC), name)
    if path is None or not Path(path).is_file():
        raise NotFound
    answer = Response(Path(path).read_bytes(), content_type=kind)
    answer.headers["Cache-Control"] = f"public, max-age={YEAR_S}, immutable" if kept else "no-cache"
    answer.add_etag()
    answer.make_conditional(request)
    return answer
