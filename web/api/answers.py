"""Responses of the calls: JSON without nulls."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import orjson
from flask import Response

from config.database.errors import DatabaseBusy, DatabaseUnreachable

if TYPE_CHECKING:
    from agents.handle import RunHandle

log = logging.getLogger(__name__)


def answer(body: Any, status: int = 200, **headers: str) -> Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(orjson.dumps(body), status, named, content_type="application/json")


def status_of(handle: RunHandle) -> str:
    """Return an accepted run's state, or ``queued`` if the database does not answer: it is accepted all the same."""
    try:
        return handle.status()
    except (DatabaseBusy, DatabaseUnreachable) as error:
        log.warning("answered without the run's state: %s", error, extra={"run_id": handle.run_id})
        return "queued"
