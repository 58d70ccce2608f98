"""How the calls answer, and how they wait: JSON without nulls, and a wait that always ends."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import orjson
from flask import Response

from bus.journal.line import Line
from config.errors import DatabaseBusy, DatabaseUnreachable
from web.process import WebProcess

if TYPE_CHECKING:
    from agents.handle import RunHandle

log = logging.getLogger(__name__)


def answer(body: Any, status: int = 200, **headers: str) -> Response:
    """Return a JSON answer."""
    return Response(orjson.dumps(body), status, {name.replace("_", "-"): value for name, value in headers.items()},
                    content_type="application/json")  # fmt: skip


def status_of(handle: RunHandle) -> str:
    """Return an accepted run's state, or ``queued`` while the database does not say: it is accepted all the same."""
    try:
        return handle.status()
    except (DatabaseBusy, DatabaseUnreachable) as wrong:
        log.warning("answered without the run's state: %s", wrong, extra={"run_id": handle.run_id})
        return "queued"


def wait_for_end(process: WebProcess, run_id: str, thread_id: str, wait_s: float) -> Line | None:
    """Return the run's end, or None when it did not end within ``wait_s``; it goes on all the same.

    Raises:
        Overloaded: too many requests wait already.
    """
    if wait_s <= 0:
        return None
    process.begin_waiting()
    try:
        return process.journal.loop.run(_end_within(process, run_id, thread_id, wait_s))
    finally:
        process.end_waiting()


async def _end_within(process: WebProcess, run_id: str, thread_id: str, wait_s: float) -> Line | None:
    try:
        async with asyncio.timeout(wait_s):
            return await process.journal.wait(run_id, thread_id)
    except TimeoutError:
        return None
