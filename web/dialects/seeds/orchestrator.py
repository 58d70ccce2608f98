"""The calls of the first orchestrator design: `/v1/agent/run` streams its dialect, `/process` waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

import orjson
from flask import Blueprint, Response, url_for
from pydantic import AfterValidator, ConfigDict, Field
from typing_extensions import TypeAliasType

from agents.governance.engine.errors import EngineUnavailable
from agents.models.errors import MODEL_TIMEOUT, ModelFailed
from bus.journal.errors import CodeVersion
from bus.journal.readers import RunStatus
from config.text.stored_texts import stored_name
from web.api.answers import STARTING, answer, end_of, start_run, status_of
from web.auth.authentication import current_principal, require_still_valid
from web.calls.call import call
from web.calls.fields import Answer, Input, Maybe, ProblemDetails
from web.calls.parameters import Repeatable
from web.dialects.seeds.feed import SeedFeed, as_text, reason_of
from web.errors import RUN_NOT_SUCCEEDED, TOO_MANY_VIEWERS
from web.problems import problem
from web.process import current_process
from web.schemas.paths import Sentence, ThreadName
from web.sse import StreamResponse

if TYPE_CHECKING:
    from agents.handle import RunHandle


class Processed(Answer):
    """The answer of the agent."""

    response: str
    thread_id: str
    correlation_id: Maybe[str] = None
    """The id that the request had."""


class StillProcessing(Answer):
    """A run that takes longer than the request waits."""

    run_id: str
    status: RunStatus
    events_url: str
    """Where its events are."""
    thread_id: str
    correlation_id: Maybe[str] = None


class Thinking(Answer):
    """A piece of the answer."""

    type: Literal["thinking"]
    content: str


class ToolStart(Answer):
    """A tool is called."""

    type: Literal["tool_start"]
    name: str
    args: dict[str, Any]


class ToolResult(Answer):
    """A tool has answered."""

    type: Literal["tool_result"]
    name: str
    result: str


class SeedError(Answer):
    """The run did not succeed."""

    type: Literal["error"]
    code: str
    message: str


class SeedUsage(Answer):
    """What the run used."""

    tokens: int
    """Input and output together."""


class Done(Answer):
    """The last event."""

    type: Literal["done"]
    usage: SeedUsage
    correlation_id: Maybe[str] = None


SeedEvent = TypeAliasType("SeedEvent", Thinking | ToolStart | ToolResult | SeedError | Done)


seed = Blueprint("seed", __name__)

WAIT_S = 30
PASSING = frozenset({ModelFailed.code, MODEL_TIMEOUT.code, CodeVersion.code, EngineUnavailable.code})
"""The errors of runs after which a new run may succeed."""
CorrelationId = Annotated[
    str, Field(max_length=128), AfterValidator(lambda text: stored_name(text, "the correlation id"))
]


class SeedConfig(Input):
    """What the run is started with."""

    model_config = ConfigDict(extra="ignore")  # as the first orchestrator did

    agent_id: Maybe[str] = None
    """The agent; absent: the default agent."""


class RunAgent(Input):
    """A message for an agent, in the dialect of the first orchestrator design."""

    input: Sentence
    """The message."""
    thread_id: Maybe[ThreadName] = None
    """Your own name for the conversation; absent: a new one."""
    correlation_id: Maybe[CorrelationId] = None
    """Sent back in the last event."""
    config: Maybe[SeedConfig] = None
    """The agent."""


@seed.post("/v1/agent/run")
@call(
    {200: {"text/event-stream": SeedEvent}},
    problems=(*STARTING, TOO_MANY_VIEWERS),
    sends={"X-Run-Id": "The run's id.", "Location": "Where the run's events are, to resume a stream that broke."},
)
def run(body: RunAgent, headers: Repeatable) -> Response:
    """Start a run and stream it as thinking, tool_start, tool_result, error and done.

    A repeated request with the same `Idempotency-Key` gets the first one's run, streamed from its beginning.
    """
    correlation_id = body.correlation_id
    journal, viewers = current_process().journal, current_process().hub.viewers
    viewers.require_room(current_principal())
    handle = _start(body, body.input, headers, body.config.agent_id if body.config else None)
    run = current_principal().tenant, handle.run_id, handle.thread_id
    feed = SeedFeed(journal, viewers.backlog, *run, correlation_id)
    stream = StreamResponse(viewers, lambda: feed)
    stream.headers["X-Run-Id"] = handle.run_id  # in the headers, so that a client can resume a broken stream
    stream.headers["Location"] = url_for("events.of_run", run_id=handle.run_id)
    return stream


class ProcessMessage(Input):
    """A message for the default agent."""

    message: Sentence
    """The message."""
    thread_id: Maybe[ThreadName] = None
    """Your own name for the conversation; absent: a new one."""
    correlation_id: Maybe[CorrelationId] = None
    """Sent back in the answer."""


@seed.post("/process")
@call(
    {200: Processed, 202: StillProcessing, 502: {"application/problem+json": ProblemDetails}},
    problems=STARTING,
)
def process(body: ProcessMessage, headers: Repeatable) -> Response:
    """Start a run and wait for its answer; 202 with the run's id if it takes longer than 30 s.

    A run that does not succeed is 502 with the code of its error. A repeated request with the same `Idempotency-Key`
    waits for the first one's run.
    """
    correlation_id = body.correlation_id
    echo = {"correlation_id": correlation_id} if correlation_id is not None else {}
    handle = _start(body, body.message, headers, None)
    ids = {"thread_id": handle.thread_id, **echo}
    end, _ = end_of(handle, WAIT_S)
    require_still_valid()
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
    error = current_process().journal.readers.runs.last_error(handle.run_id) if is_failed else None
    code, why = (error.code, error.message) if error is not None else (RUN_NOT_SUCCEEDED.code, reason_of(event))
    facts = {"run_id": handle.run_id, "run_status": event["status"], **ids}
    return problem(502, code, why, retryable=code in PASSING, **facts)


def _start(body: RunAgent | ProcessMessage, message: str, headers: Repeatable, agent_id: str | None) -> RunHandle:
    metadata = {"correlation_id": body.correlation_id} if body.correlation_id is not None else None
    return start_run(message, agent_id, body, headers, thread_id=body.thread_id, metadata=metadata)
