"""Responses of the calls: JSON without nulls."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson
from flask import Response

from config.database.errors import DatabaseBusy, DatabaseUnreachable
from web.errors import Overloaded
from web.process import current_process
from web.security import current_principal

if TYPE_CHECKING:
    from agents.handle import RunHandle
    from bus.journal import Line

log = logging.getLogger(__name__)


def answer(body: Any, status: int = 200, **headers: str) -> Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(orjson.dumps(body), status, named, content_type="application/json")


def end_of(handle: RunHandle, wait_s: float) -> Line | None:
    """Return an accepted run's end; None if it takes longer, or if too many requests wait: the caller needs the id."""
    process = current_process()
    work = partial(process.journal.wait, handle.run_id, handle.thread_id)
    try:
        return process.wait(current_principal().tenant, wait_s, work)
    except Overloaded:
        return None


def status_of(handle: RunHandle) -> str:
    """Return an accepted run's state, or ``queued`` if the database does not answer: it is accepted all the same."""
    try:
        return handle.status()
    except (DatabaseBusy, DatabaseUnreachable) as error:
        log.warning("answered without the run's state: %s", error, extra={"run_id": handle.run_id})
        return "queued"
