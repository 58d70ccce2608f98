"""Celery's configuration as it will be used: what plugins, the environment and our own file made of it together."""

from __future__ import annotations

import os

from bus.celery_rules import broken_rules
from config.settings import Settings
from web.terminal.looks.finding import Found


def look_at_celery(settings: Settings) -> Found:
    """Yield what of it loses work. A worker's command line is seen by nobody but that worker; it says so itself."""
    from bus.celery_app import app

    broken = list(broken_rules(app.conf, settings, os.environ))
    yield from ((each.verdict, each.text) for each in broken)
    if not broken:
        yield "ok", "JSON alone, no remote control, early acknowledgement"
