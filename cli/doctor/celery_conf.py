"""Check of Celery's effective configuration: our file, the plugins and the environment combined."""

from __future__ import annotations

import os

from bus.celery_rules import broken_rules
from cli.doctor.finding import Verdicts, ok
from config.redis.socket import with_running_redis
from config.settings import Settings


def check_celery(settings: Settings) -> Verdicts:
    """Yield the settings that lose work. Only a worker knows its own command line, so it checks that itself."""
    from bus.celery_app import app

    broken = list(broken_rules(app.conf, with_running_redis(settings), os.environ))
    yield from ((each.verdict, each.text) for each in broken)
    if not broken:
        yield ok("JSON alone, no remote control, early acknowledgement")
