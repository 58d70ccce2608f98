"""The tools with which clients find their runs again: `run_status`, `run_events` and `cancel_run`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import orjson
from mcp.types import CallToolResult, Tool, ToolAnnotations
from pydantic import Field

from bus.journal.readers import Line, RunStatus, parse_cursor
from bus.payloads import TERMINAL
from web.calls.fields import Input
from web.mcp.arguments import read_arguments
from web.mcp.results import TEXT_BYTES, fitted, result, result_of, run_schema, shortened
from web.mcp.service import Acting, Context, Service
from web.mcp.watching import Watched

MAX_WAIT_S = 300
"""Most seconds that one request waits for a run; the client asks again."""
MAX_EVENTS = 500
MAX_EVENT_BYTES = 256 * 1024
"""Most bytes of the events of one answer, which a model may read."""


class WhichRun(Input):
    """The run that is meant."""

    run_id: Annotated[str, Field(max_length=100)]
    """The run's id."""


class RunStatusInput(WhichRun):
    """What `run_status` takes."""

    wait_s: Annotated[float, Field(ge=0, le=MAX_WAIT_S)] = 0
    """Seconds to wait for the run's end, if it has not ended."""


class RunEventsInput(WhichRun):
    """What `run_events` takes."""

    after: Annotated[str, Field(max_length=20)] = "0"
    """The cursor of the last answer; absent: from the beginning."""
    limit: Annotated[int, Field(ge=1, le=MAX_EVENTS)] = 100
    """Most events of the answer."""


class RunWaitedFor(NamedTuple):
    """A run, and how long a request waits for it."""

    run: Watched
    wait_s: float


def _schema(model: type[Input]) -> dict[str, Any]:
    schema = model.model_json_schema()
    return {name: schema[name] for name in ("type", "properties", "required", "additionalProperties")}


_EVENTS_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "events": {"type": "array", "items": {"type": "object"}, "description": "The events after the cursor."},
        "cursor": {"type": "string", "description": "What the next request sends as `after`."},
        "ended": {"type": "boolean", "description": "Whether no event will follow."},
        "status": {"type": "string"},
        "code": {"type": "string"},
        "error": {"type": "string"},
    },
}
_READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
RUN_TOOLS = {
    tool.name: tool
    for tool in (
        Tool(
            name="run_status",
            description="The state of a run: its result if it has ended, else what it waits for. With wait_s it waits.",
            input_schema=_schema(RunStatusInput),
            output_schema=run_schema(None),
            annotations=_READS,
        ),
        Tool(
            name="run_events",
            description="The numbered events of a run after a cursor: what it did, said and asked, in order.",
            input_schema=_schema(RunEventsInput),
            output_schema=_EVENTS_SCHEMA,
            annotations=_READS,
        ),
        Tool(
            name="cancel_run",
            description="Stop a run, wherever it is executed. A second time, or after its end, it changes nothing.",
            input_schema=_schema(WhichRun),
            output_schema=run_schema(None),
            annotations=ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True),
        ),
    )
}


class RunTools:
    """Answers the calls of these tools."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def watched(
        self, context: Context, caller: Acting, name: str, arguments: Mapping[str, Any]
    ) -> RunWaitedFor | CallToolResult:
        """Return the result of a call, or the run that it waits for.

        Raises:
            ArgumentsInvalid: an argument is missing or wrong.
            RunUnknown: there is no such run, or the principal does not see it.
            CURSOR_INVALID, CURSOR_AHEAD: the cursor is none of the run's.
        """
        act = self._service.act
        if name == "run_events":
            parameters = read_arguments(RunEventsInput, arguments)
            return await self._events(caller, parameters.run_id, parse_cursor(parameters.after), parameters.limit)
        if name == "cancel_run":
            run_id = read_arguments(WhichRun, arguments).run_id
            handle = await act(caller, self._service.runner.handle, run_id, caller.principal)
            await act(caller, handle.cancel)
            return _after_stop(await act(caller, result_of, self._service, caller, run_id))
        status = read_arguments(RunStatusInput, arguments)
        handle = await act(caller, self._service.runner.handle, status.run_id, caller.principal)
        return RunWaitedFor(Watched(self._service, context, caller, handle), status.wait_s)

    async def _events(self, caller: Acting, run_id: str, cursor: int, limit: int) -> CallToolResult:
        journal, act = self._service.journal, self._service.act
        thread_id, status, last = await act(caller, journal.readers.runs.bounds, caller.principal, run_id, cursor)
        stored, has_more = await act(caller, journal.readers.page, run_id, thread_id, cursor)
        lines = await journal.readers.with_live(caller.principal.tenant, run_id, cursor, stored, has_more=has_more)
        page = _fitting(lines[:limit])
        ended = page[-1].is_end if page else status in TERMINAL and cursor >= last
        facts = {"ended": ended, "cursor": str(page[-1].seq if page else cursor)}
        return await act(caller, _page, run_id, page, facts, self._service.max_answer_bytes)


def _after_stop(call_result: CallToolResult) -> CallToolResult:
    """Return the state of a run that was stopped, as a model reads it that would otherwise stop it again."""
    state = call_result.structured_content or {}
    if state["status"] in TERMINAL:  # a cancelled run is what the call wanted
        is_error = call_result.is_error and state["status"] != RunStatus.CANCELLED
        return call_result.model_copy(update={"is_error": is_error})
    run_id = state["run_id"]
    how = f"Its worker stops it. Call run_status with run_id {run_id} and wait_s for its end."
    return result({**state, "next": how}, f"The run {run_id} is {state['status']}. {how}")


def _page(run_id: str, lines: list[Line], facts: Mapping[str, Any], max_bytes: int | None) -> CallToolResult:
    """Return the events as a result; an event that is too large alone has its long texts cut."""
    events = [orjson.loads(line.data) for line in lines]
    if max_bytes is not None:
        where = f"GET /v1/runs/{run_id}/events has all of it"
        events = [shortened(event, max_bytes - TEXT_BYTES, where) for event in events]
    body = {"events": events, **facts}
    return fitted(result(body, orjson.dumps(body).decode()), max_bytes)


def _fitting(lines: list[Line]) -> list[Line]:
    """Return as many as fit into one answer, and one at least."""
    size = 0
    for count, line in enumerate(lines):
        size += len(line.data)
        if size > MAX_EVENT_BYTES and count:
            return lines[:count]
    return lines
