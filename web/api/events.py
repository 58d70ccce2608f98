"""A run's events: as a stream, as a page, or as a page that waits until there is something."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from flask import Blueprint, Response, request

from bus.journal.line import Line
from bus.journal.reader import Merge, check_cursor
from bus.journal.runs import reader_bounds
from bus.payloads import TERMINAL
from web import parameters
from web.process import WebProcess, here
from web.security import current_who
from web.sse import StreamResponse, is_over

events = Blueprint("events", __name__)

MAX_WAIT_S = 60
PAGE_EVENTS, PAGE_BYTES = 500, 1024 * 1024


@events.get("/v1/runs/<run_id>/events")
def of_run(run_id: str) -> Response:
    """Stream the events after the cursor, or return a page of them when JSON is asked for."""
    parameters.only("after", "last_event_id", "wait_s", "limit")
    process, cursor = here(), parameters.event_cursor()
    wants_page = request.accept_mimetypes.best_match(["text/event-stream", "application/json"]) == "application/json"
    wait_s = parameters.number("wait_s", 0, 0, MAX_WAIT_S)
    limit = parameters.number("limit", PAGE_EVENTS, 1, PAGE_EVENTS)
    with process.journal.read() as connection:
        thread_id, status, last = reader_bounds(connection, current_who(), run_id)
    check_cursor(cursor, last)
    if wants_page or "wait_s" in request.args:
        return _page(process, run_id, thread_id, cursor, 0 if status in TERMINAL else wait_s, limit)
    if is_over(status, cursor, last):
        return Response(status=204)
    process.hub.require_room()
    return StreamResponse(process.hub, lambda hub: hub.run_feed(run_id, thread_id), cursor)


def _page(process: WebProcess, run_id: str, thread_id: str, cursor: int, wait_s: int, limit: int) -> Response:
    with process.large_work():
        lines = _read(process, run_id, thread_id, cursor)
        if lines or not wait_s:
            return _page_of(lines, cursor, limit)
    process.begin_waiting()
    try:
        lines = process.journal.loop.run(_first_batch(process, run_id, thread_id, cursor, wait_s))
    finally:
        process.end_waiting()
    return _page_of(lines, cursor, limit)


def _page_of(lines: Sequence[Line], cursor: int, limit: int) -> Response:
    shown = _fitting(lines, limit)
    last = shown[-1].seq if shown else cursor
    ended = b"true" if shown and shown[-1].is_end else b"false"
    events_json = b",".join(line.data for line in shown)
    body = b'{"events":[%s],"cursor":"%d","ended":%s}' % (events_json, last, ended)
    return Response(body, content_type="application/json")


def _read(process: WebProcess, run_id: str, thread_id: str, cursor: int) -> Sequence[Line]:
    """Return what is known behind the cursor now, SQL and the hot log merged."""
    journal = process.journal
    lines = journal.page(run_id, thread_id, cursor)
    if lines and lines[-1].is_end:
        return lines
    hot = journal.loop.run(journal.hot_log.read_after(run_id, lines[-1].seq if lines else cursor))
    return Merge(cursor).offer(lines + hot)


async def _first_batch(process: WebProcess, run_id: str, thread_id: str, cursor: int, wait_s: int) -> Sequence[Line]:
    try:
        async with asyncio.timeout(wait_s):
            async for batch in process.journal.follow(run_id, thread_id, cursor):
                return batch
    except TimeoutError:
        pass
    return ()


def _fitting(lines: Sequence[Line], limit: int) -> Sequence[Line]:
    """Return as many as fit into one answer, and one at least."""
    size = 0
    for count, line in enumerate(lines[:limit]):
        size += len(line.data)
        if size > PAGE_BYTES and count:
            return lines[:count]
    return lines[:limit]
