"""Runs: start one, list them, look at one, stop one."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response, url_for

from bus.journal.removal import remove_runs
from bus.journal.runs import get_run, run_page
from bus.journal.why import why_one
from bus.payloads import TERMINAL
from web import parameters
from web.api.answers import answer, status_of, wait_for_end
from web.bodies import read_body
from web.process import here
from web.security import current_who

runs = Blueprint("runs", __name__)

MAX_WAIT_S = 300
FIELDS = ("agent", "input", "thread_id", "detached", "wait_s", "metadata")


@runs.post("/v1/runs")
def start() -> Response:
    """Accept a run: 202 and where to watch it, or 200 with its end when the caller waits and it ends in time."""
    body = read_body(*FIELDS)
    process, who = here(), current_who()
    detached, wait_s = body.flag("detached", True), body.seconds("wait_s", 30, MAX_WAIT_S)
    handle = process.runner.run(
        body.text("input"),
        body.text("agent", max_chars=80),
        thread_id=body.optional_text("thread_id"),
        detached=detached,
        who=who,
        metadata=body.mapping("metadata"),
        idempotency=parameters.idempotency_key(body.raw),
        here=False,
    )
    links = {"Location": url_for("runs.one", run_id=handle.run_id)}
    if not detached:
        end = wait_for_end(process, handle.run_id, handle.thread_id, wait_s)
        if end is not None:
            return Response(end.data, 200, links, content_type="application/json")
    status = "queued" if handle.is_new and detached else status_of(handle)
    return answer(_accepted(handle.run_id, handle.thread_id, status), 202, **links)


@runs.get("/v1/runs")
def many() -> Response:
    """List runs, the newest first."""
    parameters.only("status", "agent", "thread_id", "limit", "before")
    limit, before, process = parameters.number("limit", 50, 1, 200), parameters.list_cursor(), here()
    with process.large_work(), process.journal.read() as connection:
        found, is_cut = run_page(
            connection, current_who(), status=parameters.text("status"), agent=parameters.text("agent"),
            thread_id=parameters.text("thread_id"), limit=limit, **_behind(before),
        )  # fmt: skip
        count = len(found) if is_cut else limit
        return answer({"runs": found, **parameters.next_place(found, count, "created_at", "run_id")})


@runs.get("/v1/runs/<run_id>")
def one(run_id: str) -> Response:
    """Return one run, with what it asks; with ``?why=1`` also what it waits for, as a sentence."""
    parameters.only("why")
    wants_why, process, who = parameters.number("why", 0, 0, 1), here(), current_who()
    journal = process.journal
    with process.large_work(), journal.read() as connection:
        run = get_run(connection, who, run_id)
        explained = why_one(connection, journal.database, who, run_id) if wants_why else None
        return answer(run | ({"why": explained.sentence} if explained else {}))


@runs.delete("/v1/runs/<run_id>")
def remove(run_id: str) -> Response:
    """Remove an ended run, its log and its steps; what was said stays in its thread."""
    remove_runs(here().journal.database, current_who(), [run_id])
    return Response(status=204)


@runs.post("/v1/runs/<run_id>/cancel")
def cancel(run_id: str) -> Response:
    """Ask a run to stop: 200 when it has ended, 202 while its owner has yet to see it. Asking twice is harmless."""
    body, who = read_body(optional=True), current_who()
    key = parameters.idempotency_key(body.raw)
    stop = here().journal.cancel(who, run_id, by=who.principal, idempotency=key)
    told = {"run_id": run_id, "thread_id": stop.thread_id, "status": stop.status}
    return answer(told, 200 if stop.status in TERMINAL else 202)


def _accepted(run_id: str, thread_id: str, status: str) -> dict[str, str]:
    events_url = url_for("events.of_run", run_id=run_id)
    return {"run_id": run_id, "thread_id": thread_id, "status": status, "events_url": events_url}


def _behind(before: parameters.Place | None) -> dict[str, Any]:
    return {} if before is None else {"before_ms": before[0], "before_id": before[1]}
