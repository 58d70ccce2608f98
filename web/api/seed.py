"""The calls of the first orchestrator design: `/v1/agent/run` streams its dialect, `/process` waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import orjson
from flask import Blueprint, Response, url_for

from bus.journal import STOPPED, Line
from config.errors import BadRequest
from web.api.answers import answer, status_of
from web.bodies import Body, read_body
from web.feeds.projected import ProjectedFeed
from web.problems import problem
from web.process import current_process
from web.security import current_who
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
    feed = ProjectedFeed(journal, viewers.backlog, handle.run_id, handle.thread_id, Dialect(correlation_id))
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
    return answer({"response": _text(event.get("output")), **ids}, X_Run_Id=handle.run_id)


def _failed(event: Mapping[str, Any], handle: RunHandle, ids: Mapping[str, str]) -> Response:
    """Return the problem of a run that did not succeed: its last error, if any."""
    is_failed = event["status"] == "failed"
    error = current_process().journal.runs.last_error(handle.run_id) if is_failed else None
    code, why = (error.code, error.message) if error is not None else ("run_failed", _why(event))
    return problem(502, code, why, run_id=handle.run_id, run_status=event["status"], **ids)


def _start(body: Body, message: str, correlation_id: str | None) -> RunHandle:
    agent_id = current_process().settings.default_agent
    chosen = (body.mapping("config") or {}).get("agent_id", agent_id)
    if not isinstance(chosen, str):
        raise BadRequest("'config.agent_id' has to be text.")
    thread_id = body.optional_text("thread_id")
    metadata = {"correlation_id": correlation_id} if correlation_id is not None else None
    return current_process().runner.run(message, chosen, thread_id=thread_id, who=current_who(), metadata=metadata)


# --- the dialect -----------------------------------------------------------------------------------


class Dialect:
    """Translates one run's events to the dialect; keeps the last error for the end event."""

    def __init__(self, correlation_id: str | None) -> None:
        self._correlation_id = correlation_id
        self._error: Mapping[str, Any] = {}

    def __call__(self, line: Line) -> bytes:
        """Return an event's frames in the dialect; empty if the dialect has no such event."""
        if line.type == "response":
            return _frame({"type": "thinking", "content": orjson.loads(line.data).get("content", "")})
        if line.type not in ("tool", "tool_result", "error", "end"):
            return b""
        event = orjson.loads(line.data)
        if line.type == "error":
            self._error = event
        elif line.type == "end":
            return self._ending(event)
        elif line.type == "tool_result":
            return _frame({"type": "tool_result", "name": event["name"], "result": _text(event.get("result"))})
        elif "arguments" in event:  # not the early event with the name only
            return _frame({"type": "tool_start", "name": event["name"], "args": event["arguments"]})
        return b""

    def _ending(self, event: Mapping[str, Any]) -> bytes:
        usage = event.get("usage", {})
        done = {"type": "done", "usage": {"tokens": usage.get("input_tokens", 0) + usage.get("output_tokens", 0)}}
        if self._correlation_id is not None:
            done["correlation_id"] = self._correlation_id
        if event["status"] == "succeeded":
            return _frame(done)
        error = self._error if event["status"] == "failed" else {}
        code, message = error.get("code") or event["status"], error.get("message") or _why(event)
        return _frame({"type": "error", "code": code, "message": message}) + _frame(done)


def _why(event: Mapping[str, Any]) -> str:
    reason = event.get("reason")
    return STOPPED.note if reason == STOPPED.reason else str(reason or f"the run {event['status']}.")


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else orjson.dumps(value).decode()


def _frame(event: Mapping[str, Any]) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (str(event["type"]).encode(), orjson.dumps(event))
