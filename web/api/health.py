"""Health: what answers and what does not, for people; ready, for load balancers."""

from __future__ import annotations

import asyncio
from typing import Any

from flask import Blueprint, Response
from sqlalchemy import text

from bus.journal.workers import alive
from bus.redis_wire import connect
from config.errors import CallboardError
from web.api.answers import answer
from web.problems import of_error
from web.process import WebProcess, here

health = Blueprint("health", __name__)

REDIS_TIMEOUT_S = 1.5


@health.get("/health")
def state() -> Response:
    """Return how each part is: 200 while runs can be accepted, 503 when they cannot."""
    process = here()
    try:
        process.require_ready()
        with process.journal.read() as connection:
            workers = len(alive(process.journal.database, connection))
    except CallboardError as wrong:
        return answer({"status": "degraded", "database": wrong.code, "detail": str(wrong)}, 503)
    parts: dict[str, Any] = {"database": "ok", "redis": _redis(process), "workers": workers}
    fine = parts["redis"] != "unreachable" and workers
    return answer({"status": "ok" if fine else "degraded", **parts, "viewers": len(process.hub.viewers)})


@health.get("/ready")
def ready() -> Response:
    """Say whether this process can take requests."""
    process = here()
    try:
        process.require_ready()
        with process.journal.read() as connection:
            connection.execute(text("SELECT 1"))
    except CallboardError as wrong:
        answered = of_error(wrong)
        answered.status_code = 503
        return answered
    return answer({"status": "ready"})


def _redis(process: WebProcess) -> str:
    """Return ``ok``, ``unreachable``, or ``none`` where none is used."""
    url = process.settings.redis_url
    if url is None:
        return "none"
    try:
        process.journal.loop.run(_ping(url))
    except (CallboardError, TimeoutError):
        return "unreachable"
    return "ok"


async def _ping(url: str) -> None:
    async with asyncio.timeout(REDIS_TIMEOUT_S):
        wire = await connect(url)  # asks PING before it returns
        wire.close()
