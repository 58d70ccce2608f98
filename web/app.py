"""The Flask application: every door of a web process. ``web.app:create_app()`` is what gunicorn is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flask import Flask, request

from config.logs import configure_logging
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
    return app


def _require_ready() -> None:
    if request.endpoint not in ALWAYS_OPEN:
        here().require_ready()
