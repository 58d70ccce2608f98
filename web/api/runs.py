"""Runs: start, list, show, remove and cancel."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response, url_for

from bus.journal import CONTROLS
from web import parameters
from web.api.answers import answer, status_of
from web.bodies import read_body
from web.fleet import with_starting
from web.process import current_process
from web.security import current_principal

runs = Blueprint("runs", __name__)

MAX_WAIT_S = 300
SMALL_CHARS = 16 * 1024
"""A run with a shorter output is read without a slot for large work."""
FIELDS = ("agent", "input", "thread_id", "detached", "wait_s", "metadata")


@runs.post("/v1/runs")
def start() -> Response:
    """Accept a run: 202 with its URLs, or 200 with its end if the caller waits and it ends in time."""
    body = read_body(*FIELDS)
    process, principal = current_process(), current_principal()
    detached, wait_s = body.flag("detached", True), body.seconds("wait_s", 30, MAX_WAIT_S)
    handle = process.runner.run(
        body.text("input"),
        body.text("agent", max_chars=80),
        thread_id=body.optional_text("thread_id"),
        detached=detached,
        principal=principal,
        metadata=body.mapping("metadata"),
        idempotency=parameters.idempotency_key(body.raw),
    )
    links = {"Location": url_for("runs.one", run_id=handle.run_id)}
    if not detached:
        end = process.wait(wait_s, lambda: process.journal.wait(handle.run_id, handle.thread_id))
        if end is not None:
            return Response(end.data, 200, links, content_type="application/json")
    status = "queued" if handle.is_new and detached else status_of(handle)
    events_url = url_for("events.of_run", run_id=handle.run_id)
    facts = {"run_id": handle.run_id, "thread_id": handle.thread_id, "status": status, "events_url": events_url}
    return answer(facts, 202, **links)


@runs.get("/v1/runs")
def many() -> Response:
    """List runs, newest first."""
    parameters.only("status", "agent", "thread_id", "limit", "before")
    limit, before, process = parameters.number("limit", 50, 1, 200), parameters.list_cursor(), current_process()
    with process.large_work():
        filters: dict[str, Any] = {name: parameters.text(name) for name in ("status", "agent", "thread_id")}
        found, is_cut = process.journal.runs.page(current_principal(), limit=limit, **filters, **before)
        count = len(found) if is_cut else limit
        return answer({"runs": found, **parameters.next_place(found, count, "created_at", "run_id")})


@runs.get("/v1/runs/<run_id>")
def one(run_id: str) -> Response:
    """Return one run with its open questions; with ``?why=1`` also a sentence about what it waits for."""
    parameters.only("why")
    wants_why, process = parameters.number("why", 0, 0, 1), current_process()
    with process.measuring():
        small = process.journal.runs.get_small(current_principal(), run_id, SMALL_CHARS)
        if small is not None:
            return answer(small | _why(run_id, wants_why))
    with process.large_work():
        return answer(process.journal.runs.get(current_principal(), run_id) | _why(run_id, wants_why))


def _why(run_id: str, is_wanted: int) -> dict[str, str]:
    explained = current_process().journal.runs.explain(current_principal(), run_id=run_id) if is_wanted else []
    return {"why": with_starting(explained[0], current_process().settings.state).sentence} if explained else {}


@runs.delete("/v1/runs/<run_id>")
def remove(run_id: str) -> Response:
    """Remove an ended run, its log and its steps; its thread keeps the messages."""
    current_process().journal.runs.remove(current_principal(), [run_id])
    return Response(status=204)


@runs.post(f"/v1/runs/<run_id>/<any({', '.join(CONTROLS)}):verb>")
def control(run_id: str, verb: str) -> Response:
    """Request what the verb says, as ``cancel``: 200 if it is done, 202 if the run's owner still has to do it.

    Repeating it is harmless.
    """
    body, principal, wanted = read_body(optional=True), current_principal(), CONTROLS[verb]
    key = parameters.idempotency_key(body.raw)
    written = current_process().journal.control(principal, run_id, wanted, by=principal.id, idempotency=key)
    facts = {"run_id": run_id, "thread_id": written.thread_id, "status": written.status}
    return answer(facts, 200 if wanted.is_done(written.status) else 202)
