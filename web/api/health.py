"""Health: what answers and what does not, for people; ready, for load balancers."""

from __future__ import annotations

import asyncio
from typing import Any

from flask import Blueprint, Response

from bus.journal.workers import alive
from bus.redis_wire import connect
from config.errors import CallboardError
from config.redaction import redact
from web.api.answers import answer
from web.fleet import fleet_of
from web.problems import RETRY_AFTER_S, of_error
from web.process import WebProcess, here

health = Blueprint("health", __name__)

REDIS_TIMEOUT_S = 1.5
PROBE_MS = 1000
"""How long what was written to see whether that is possible stays."""


@health.get("/health")
def state() -> Response:
    """Return how each part is: 200 while runs can be accepted, 503 when they cannot."""
    process = here()
    try:
        process.require_writes()
        with process.journal.read() as connection:
            workers = len(alive(process.journal.database, connection))
    except CallboardError as wrong:
        said = {"status": "degraded", "database": wrong.code, "detail": redact(str(wrong))}
        return answer(said, 503, Retry_After=str(RETRY_AFTER_S))
    parts: dict[str, Any] = {"database": "ok", "redis": _redis(process), "workers": workers}
    if starting := fleet_of(process.settings.state, workers).starting:
        parts["workers_starting"] = starting
    fine = parts["redis"] in ("ok", "none") and workers
    return answer({"status": "ok" if fine else "degraded", **parts, "viewers": len(process.hub.viewers)})


@health.get("/ready")
def ready() -> Response:
    """Say whether this process can take requests: the database answers, and takes writes."""
    process = here()
    try:
        process.require_writes()
    except CallboardError as wrong:
        answered = of_error(wrong)
        answered.status_code = 503
        return answered
    return answer({"status": "ready"})


def _redis(process: WebProcess) -> str:
    """Return ``ok``, ``unreachable``, ``refuses_writes`` (it is full, or a replica), or ``none`` where none is used."""
    url = process.settings.redis_url
    if url is None:
        return "none"
    try:
        takes_writes = process.journal.loop.run(_try(url, process.journal.keys.probe))
    except (CallboardError, ConnectionError, TimeoutError):
        return "unreachable"
    return "ok" if takes_writes else "refuses_writes"


async def _try(url: str, key: str) -> bool:
    """Return whether Redis takes a write; a PING is answered by one that is full, too."""
    async with asyncio.timeout(REDIS_TIMEOUT_S):
        wire = await connect(url)
        try:
            (reply,) = await wire.send([("SET", key, "", "PX", PROBE_MS)])
        finally:
            wire.close()
    return not isinstance(reply, Exception)
