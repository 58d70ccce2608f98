"""The spans of a run that has ended, as OpenTelemetry's conventions for generative AI name them.

They are made of the run's row, its log and its steps, so that no worker has to remember or send anything. A span's id
follows from the id of its run or step: made again, the spans are the same ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from bus.journal.tailing import RunReader
from bus.payloads import (
    ApprovalPayload,
    EndPayload,
    ErrorPayload,
    HandoverPayload,
    MessagePayload,
    NodePayload,
    Payload,
    StatusPayload,
    ToolPayload,
    ToolResultPayload,
)
from config.identity.contexts import trace_id_of_run
from config.tracing import span_id_of
from observers.traces.conventions import (
    MAX_CONTENT,
    Attribute,
    json_of,
    label_of,
    labels_of,
    model_attributes,
    ms_of,
    number_of,
    operation_attributes,
    present,
    spoken,
    step_facts,
    step_name,
    text_of,
    usage_attributes,
)

MAX_RUN_CONTENT = 2_000_000
"""Characters of arguments, results and messages of one run."""
MAX_EVENTS = 128
"""Events of the run's own span."""
MAX_OPERATIONS = 10_000
"""Requests, statements and file operations of one run."""
TYPES = "approval end error handover message node status tool tool_result".split()
_OPERATION = {"agent": "invoke_agent", "workflow": "invoke_workflow"}
_SPAN_ID = re.compile(r"(?!0{16})[0-9a-f]{16}")
_FAILED = ("failed", "refused", "unknown")
"""The states of steps that are errors; what a stop cancelled is none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SpanEvent:
    """Something that happened during a span."""

    name: str
    at_ms: float
    attributes: Mapping[str, Attribute]


@dataclass(frozen=True, kw_only=True, slots=True)
class SpanValue:
    """A span, as it is sent."""

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    start_ms: float
    end_ms: float
    attributes: Mapping[str, Attribute]
    is_client: bool = False
    """Whether it is a request to another program; of the run itself otherwise."""
    events: Sequence[SpanEvent] = ()
    error: str | None = None
    """Why it failed; None: it did not."""


def spans_of(reader: RunReader, run_id: str, *, has_content: bool) -> Iterator[SpanValue]:
    """Yield the spans of a run: of each step and its operations, and at last of the run itself; none of a removed run.

    ``has_content``: with arguments, results and messages, unless the run is private.
    """
    run = reader.run(run_id)
    if run is None:
        return
    has_content = has_content and not run.private
    story = RunStory(has_content=has_content)
    if has_content:
        story.input = text_of(reader.input_of(run_id), MAX_CONTENT)
    for payload in reader.events(run_id, TYPES, with_results=has_content):
        story.add(payload)
    trace = _Trace(run, story)
    if run.kind == "workflow":
        trace.place_nodes(reader.nodes(run_id))
    for step in reader.steps(run_id):
        yield from trace.spans_of_step(step)
    yield trace.root()


# --- what the log says


@dataclass(kw_only=True, slots=True)
class RunStory:
    """What a run's log says beyond its steps; of bounded size, however long the log is."""

    has_content: bool
    end: EndPayload | None = None
    events: list[SpanEvent] = field(default_factory=list)
    left_out: int = 0
    """Events beyond the limit."""
    of_steps: dict[str, dict[str, Attribute]] = field(default_factory=dict)
    """Attributes of steps, by their ids."""
    input: str = ""
    """With the content: the text that the run answers."""
    output: str = ""
    nodes_ms: dict[str, float] = field(default_factory=dict)
    """When the nodes of a workflow began, by their paths."""
    _content_left: int = MAX_RUN_CONTENT

    def add(self, payload: Payload) -> None:
        """Take the next event; one of an unknown type says nothing."""
        match payload:
            case StatusPayload():
                self._note(payload, f"callboard.{payload.status}", reason=payload.reason, owner=payload.attempt)
            case ErrorPayload():
                facts = {"code": payload.code, "attempt": payload.attempt, "call_id": payload.call_id}
                text = self.content(payload.message) if self.has_content else None
                self._note(payload, "callboard.error", **facts, to_model=payload.to_model, message=text)
            case HandoverPayload():
                self._note(payload, "callboard.handover", from_agent=payload.from_agent, to_agent=payload.to_agent)
            case ApprovalPayload():
                self._note(payload, "callboard.approval", decision=payload.decision or "asked", call_id=payload.call_id)
            case NodePayload(status="started"):
                path = "/".join(str(part) for part in (*payload.path, payload.node_id))
                self.nodes_ms.setdefault(path, ms_of(payload.at) or 0)
            case ToolPayload() | ToolResultPayload() | MessagePayload() if payload.step_id:
                self.of_steps.setdefault(payload.step_id, {}).update(self._of_step(payload))
            case EndPayload():
                self.end = payload
                if self.has_content and payload.output is not None:
                    self.output = text_of(_as_text(payload.output), MAX_CONTENT)
            case _:
                pass

    def content(self, value: Any) -> str | None:
        """Return a message or data as text without secrets, truncated; None where the run has had too much of it."""
        if self._content_left <= 0:
            return None
        text = text_of(_as_text(value), min(MAX_CONTENT, self._content_left))
        self._content_left -= len(text)
        return text

    def _of_step(self, payload: ToolPayload | ToolResultPayload | MessagePayload) -> dict[str, Attribute]:
        attributes: dict[str, Any] = {}
        if isinstance(payload, ToolPayload):
            if payload.identity is not None:
                attributes |= {"mcp.method.name": "tools/call", "callboard.tool.identity": label_of(payload.identity)}
            attributes["callboard.tool.effect"] = payload.effect
            if self.has_content and payload.arguments is not None:
                attributes["gen_ai.tool.call.arguments"] = self.content(dict(payload.arguments))
        elif isinstance(payload, ToolResultPayload):
            attributes |= {"error.type": payload.code, "callboard.tool.recorded_in": payload.recorded_in}
            if self.has_content and payload.result is not None:
                attributes["gen_ai.tool.call.result"] = self.content(payload.result)
        elif self.has_content and payload.role == "assistant":
            calls = [call.get("name") for call in payload.tool_calls or ()]
            text = self.content(payload.content) if payload.content else None
            attributes["gen_ai.output.messages"] = spoken("assistant", text, calls)
        return present(attributes)

    def _note(self, payload: Payload, name: str, **facts: Any) -> None:
        if len(self.events) >= MAX_EVENTS:
            self.left_out += 1
            return
        attributes = labels_of({f"callboard.{key}": value for key, value in facts.items() if value is not None})
        self.events.append(SpanEvent(name=label_of(name), at_ms=ms_of(payload.at) or 0, attributes=attributes))


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value, default=str).decode()


# --- the spans


class _Trace:
    """The trace of one run, while its spans are made."""

    def __init__(self, run: Any, story: RunStory) -> None:
        self._run, self._story = run, story
        self._trace_id = run.trace_id or trace_id_of_run(run.id)
        self._root_id = span_id_of(run.id)
        self._end_ms = run.ended_ms or (ms_of(story.end.at) if story.end is not None else None) or run.created_ms
        self._nodes: dict[str, str] = {}
        self._began_ms: dict[str, float] = {}
        self._operations = 0

    def place_nodes(self, rows: Iterable[Any]) -> None:
        """Note which step stands for which node of a workflow, and when the nodes around it began at the latest."""
        for row in rows:
            self._nodes.setdefault(row.node, row.id)
            for path in _around(row.node):
                self._began_ms[path] = min(self._began_ms.get(path, row.started_ms), row.started_ms)

    # --- the run

    def root(self) -> SpanValue:
        """Return the span of the run itself."""
        run, end = self._run, self._story.end
        status = end.status if end is not None else run.status
        reason = (end.reason if end is not None else run.reason) or status
        has_failed = status in ("failed", "dead")
        attributes = self._run_attributes() | {"callboard.run.status": status}
        if reason != status:
            attributes["callboard.run.reason"] = label_of(reason)
        if has_failed:
            attributes["error.type"] = label_of(reason)
        parent_id = run.parent_span or (span_id_of(run.parent_step) if run.parent_step is not None else None)
        return SpanValue(
            trace_id=self._trace_id,
            span_id=self._root_id,
            parent_id=parent_id if parent_id is not None and _SPAN_ID.fullmatch(parent_id) else None,
            name=label_of(f"{_OPERATION.get(run.kind, 'run_tool')} {run.agent_name}"),
            start_ms=run.created_ms,
            end_ms=max(run.created_ms, self._end_ms),
            attributes=attributes,
            events=self._story.events,
            error=label_of(reason) if has_failed else None,
        )

    def _run_attributes(self) -> dict[str, Attribute]:
        run, story, end = self._run, self._story, self._story.end
        facts = {
            "gen_ai.operation.name": _OPERATION.get(run.kind),
            "gen_ai.agent.id": run.agent_id if run.kind == "agent" else None,
            "gen_ai.workflow.name" if run.kind == "workflow" else "gen_ai.agent.name": run.agent_name,
            "gen_ai.conversation.id": run.thread_id,
            **model_attributes(run.model),
            "callboard.run.id": run.id,
            "callboard.run.kind": run.kind,
            "callboard.run.origin": run.origin_id,
            "callboard.tenant": run.tenant,
            "callboard.correlation_id": run.correlation_id,
        }
        attributes = labels_of(present(facts))
        if end is not None:
            attributes |= usage_attributes(end.usage) | present({"callboard.cost_usd": end.cost_usd})
        if story.input:
            attributes["gen_ai.input.messages"] = spoken("user", story.input)
        if story.output:
            attributes["gen_ai.output.messages"] = spoken("assistant", story.output)
        if story.left_out:
            attributes["callboard.events.left_out"] = story.left_out
        if self._operations > MAX_OPERATIONS:
            attributes["callboard.operations.left_out"] = self._operations - MAX_OPERATIONS
        return attributes

    # --- its steps

    def spans_of_step(self, step: Any) -> Iterator[SpanValue]:
        """Yield the span of a step, and those of what it did."""
        span_id = span_id_of(step.id)
        is_model, mine = step.kind in ("model", "sample"), self._story.of_steps.get(step.id, {})
        attributes = labels_of(step_facts(step)) | mine
        attributes["gen_ai.conversation.id"] = label_of(self._run.thread_id)
        attributes |= usage_attributes(json_of(step.usage_json)) | present({"callboard.cost_usd": step.cost_usd})
        operations = [each for each in json_of(step.spans_json) or () if isinstance(each, Mapping)]
        if operations and operations[-1].get("kind") == "left_out":
            attributes["callboard.operations.left_out"] = int(operations.pop().get("count", 0))
        error = None
        if step.status in _FAILED:
            error = attributes["error.type"] = label_of(mine.get("error.type") or step.status)
        else:
            attributes.pop("error.type", None)
        start_ms = self._start_ms(step)
        yield SpanValue(
            trace_id=self._trace_id,
            span_id=span_id,
            parent_id=self._parent_of(step),
            name=step_name(step),
            start_ms=start_ms,
            end_ms=max(start_ms, step.ended_ms if step.ended_ms is not None else self._end_ms),
            attributes=attributes,
            is_client=is_model or "mcp.method.name" in mine,
            error=error,
        )
        for index, operation in enumerate(operations):
            self._operations += 1
            if self._operations <= MAX_OPERATIONS:
                yield self._operation(operation, span_id, f"{step.id}/{index}", start_ms)

    def _start_ms(self, step: Any) -> float:
        if not step.node or step.kind not in ("node", "item", "wait"):
            return float(step.started_ms)
        places = (step.started_ms, self._began_ms.get(step.node), self._story.nodes_ms.get(step.node))
        return float(min(place for place in places if place))

    def _parent_of(self, step: Any) -> str:
        for path in _around(step.node or ""):
            if path in self._nodes:
                return span_id_of(self._nodes[path])
        return self._root_id

    def _operation(self, operation: Mapping[str, Any], parent_id: str, key: str, step_ms: float) -> SpanValue:
        """Return the span of a request, a statement or a file operation."""
        named, error = str(operation.get("span_id", "")), operation.get("error")
        start_ms = ms_of(operation.get("started_at")) or step_ms
        attributes = operation_attributes(operation, has_content=self._story.has_content)
        status = attributes.get("http.response.status_code")
        if error is None and isinstance(status, int) and status >= 400:
            error = str(status)
        if error is not None:
            attributes["error.type"] = label_of(error)
        return SpanValue(
            trace_id=self._trace_id,
            span_id=named if _SPAN_ID.fullmatch(named) else span_id_of(key),
            parent_id=parent_id,
            name=label_of(str(operation.get("name") or operation.get("kind") or "operation").split(" ", 1)[0]),
            start_ms=start_ms,
            end_ms=start_ms + max(0.0, number_of(operation.get("duration_ms"))),
            attributes=attributes,
            is_client=operation.get("kind") in ("http", "sql"),
            error=label_of(error) if error is not None else None,
        )


def _around(path: str) -> Iterator[str]:
    """Yield the paths of the nodes around a node, the nearest first: of ``items/17/charge`` ``items/17``, ``items``."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path
