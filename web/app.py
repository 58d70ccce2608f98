"""The Flask application: every door of a web process. ``web.app:create_app()`` is what gunicorn is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flask import Flask, request

from config.logs import configure_logging
from config.patience import ANSWER_S, patience
from config.rooms import require_own_rooms
from config.settings import Settings, settings
from web import problems, security
from web.api.agents import agents
from web.api.approvals import approvals
from web.api.board import board
from web.api.events import events
from web.api.health import health
from web.api.page import page
from web.api.runs import runs
from web.api.seed import seed
from web.api.threads import threads
from web.process import WebProcess, here, install

if TYPE_CHECKING:
    from agents.runner import Runner

Serve = Callable[[Any, Any], Any]
"""A WSGI application."""
DOORS = (runs, approvals, events, board, threads, agents, health, seed, page)
ALWAYS_OPEN = frozenset({"health.state", "health.ready"})
"""Endpoints that answer whatever the database says, since they say what it says."""


def create_app(with_settings: Settings | None = None, runner: Runner | None = None) -> Flask:
    """Return the application. Nothing is connected until the first request, so a server may fork in between.

    Raises:
        RoomTaken: a stranger answers to the name of one of our rooms.
    """
    require_own_rooms()
    chosen = with_settings or (runner.settings if runner is not None else None)
    if chosen is None:  # a server was told to serve this, and nobody set the process up
        chosen = settings()
        configure_logging(chosen, "web")
    app = Flask("callboard", static_folder=None, template_folder=None)
    app.url_map.merge_slashes = False  # an address means what it says; nothing is redirected
    install(app, WebProcess(chosen, runner))
    security.register(app, chosen)
    problems.register(app)
    app.before_request(_require_ready)
    for door in DOORS:
        app.register_blueprint(door)
    app.wsgi_app = _answer_in_time(app.wsgi_app)  # type: ignore[method-assign,assignment]  # as Flask's documentation does it
    return app


def _answer_in_time(serve: Serve) -> Serve:
    """Return what serves requests so that none waits longer for the database than a client should."""

    def serve_in_time(environ: Any, start_response: Any) -> Any:
        with patience(ANSWER_S):
            return serve(environ, start_response)

    return serve_in_time


def _require_ready() -> None:
    if request.endpoint not in ALWAYS_OPEN:
        here().require_ready()
