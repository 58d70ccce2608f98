"""The calls of the first orchestrator design: `/v1/agent/run` streams its dialect, `/process` waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import orjson
from flask import Blueprint, Response, url_for

from config.errors import BadRequest
from web.api.answers import answer, status_of
from web.bodies import Body, read_body
from web.feeds.seed import SeedFeed, as_text, reason_of
from web.problems import problem
from web.process import current_process
from web.security import current_principal
from web.sse import StreamResponse

if TYPE_CHECKING:
    from agents.handle import RunHandle

seed = Blueprint("seed", __name__)

WAIT_S = 30


@seed.post("/v1/agent/run")
def run() -> Response:
    """Start a run and stream it as thinking, tool_start, tool_result, error and done."""
    body = read_body("input", "thread_id", "correlation_id", "config")
    correlation_id = body.optional_text("correlation_id")
    journal, viewers = current_process().journal, current_process().hub.viewers
    viewers.require_room()
    handle = _start(body, body.text("input"), correlation_id)
    feed = SeedFeed(journal, viewers.backlog, handle.run_id, handle.thread_id, correlation_id)
    stream = StreamResponse(viewers, lambda: feed)
    stream.headers["X-Run-Id"] = handle.run_id  # in the headers, so that a client can resume a broken stream
    stream.headers["Location"] = url_for("events.of_run", run_id=handle.run_id)
    return stream


@seed.post("/process")
def process() -> Response:
    """Start a run and wait for its answer; 202 with the run's id if it takes longer than 30 s."""
    body = read_body("thread_id", "message", "correlation_id")
    correlation_id = body.optional_text("correlation_id")
    echo = {"correlation_id": correlation_id} if correlation_id is not None else {}
    handle = _start(body, body.text("message"), correlation_id)
    ids = {"thread_id": handle.thread_id, **echo}
    journal = current_process().journal
    end = current_process().wait(WAIT_S, lambda: journal.wait(handle.run_id, handle.thread_id))
    if end is None:
        events_url = url_for("events.of_run", run_id=handle.run_id)
        return answer({"run_id": handle.run_id, "status": status_of(handle), "events_url": events_url, **ids}, 202)
    event = orjson.loads(end.data)
    if event["status"] != "succeeded":
        return _failed(event, handle, ids)
    return answer({"response": as_text(event.get("output")), **ids}, X_Run_Id=handle.run_id)


def _failed(event: Mapping[str, Any], handle: RunHandle, ids: Mapping[str, str]) -> Response:
    """Return the problem of a run that did not succeed: its last error, if any."""
    is_failed = event["status"] == "failed"
    error = current_process().journal.runs.last_error(handle.run_id) if is_failed else None
    code, why = (error.code, error.message) if error is not None else ("run_failed", reason_of(event))
    return problem(502, code, why, run_id=handle.run_id, run_status=event["status"], **ids)


def _start(body: Body, message: str, correlation_id: str | None) -> RunHandle:
    agent_id = current_process().settings.default_agent
    chosen = (body.mapping("config") or {}).get("agent_id", agent_id)
    if not isinstance(chosen, str):
        raise BadRequest("'config.agent_id' has to be text.")
    thread_id = body.optional_text("thread_id")
    metadata = {"correlation_id": correlation_id} if correlation_id is not None else None
    return current_process().runner.run(
        message, chosen, thread_id=thread_id, principal=current_principal(), metadata=metadata
    )
