"""The events of a run. Types and fields of later versions are kept: ``UnknownEvent``, and ``raw``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from callboard_client.records import Record


@dataclass(frozen=True, kw_only=True, slots=True)
class Event(Record):
    """One event of a run's log."""

    seq: int
    """The event's number in its run, from 1; ``events(after=seq)`` continues behind it."""
    run_id: str = ""
    thread_id: str = ""
    at: str = ""
    """UTC, as ``2026-11-20T12:00:00.123Z``."""

    @property
    def event_type(self) -> str:
        """The type's name on the wire."""
        return str(self.raw["type"])


@dataclass(frozen=True, kw_only=True, slots=True)
class UnknownEvent(Event):
    """An event of a type that this version does not know; ``raw`` has its fields."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StatusEvent(Event):
    """The run's state changed."""

    status: str
    """queued, running, waiting or moved."""
    reason: str | None = None
    attempt: int | None = None
    """Which owner of the run this is, from 1."""
    agent: str | None = None
    privilege: Mapping[str, str] | None = None
    """Of a run with a privilege grant: ``grant_id``, ``by`` whom it was issued, ``reason`` and ``expires_at``."""
    trace_id: str | None = None
    """Of the run, in its first event."""
    correlation_id: str | None = None
    """The one that a client chose for the run, or else the trace id, in its first event."""
    context: Mapping[str, str] | None = None
    """Of a run's first event: its golden context."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TextEvent(Event):
    """A piece of text."""

    content: str = ""
    message_id: str = ""
    step_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ResponseEvent(TextEvent):
    """A piece of the answer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReasoningEvent(TextEvent):
    """A piece of the model's thinking."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolEvent(Event):
    """A tool call: first perhaps its name alone, then once with its arguments."""

    call_id: str
    name: str
    arguments: Mapping[str, Any] | None = None
    """None while the model still writes them."""
    content: str | None = None
    digest: str | None = None
    """SHA-256 of the arguments, as a question about the call has it."""
    effect: str | None = None
    attempt: int | None = None
    """1, and one more each time that a worker resumed the run before the call had ended."""
    identity: str | None = None
    """Of a tool of an MCP server: ``mcp:server/tool``, by which rules know it."""
    policy: Mapping[str, Any] | None = None
    """What the policy decided, where it is not that the call is made as it is: ``verdict``, ``rule``, ``reason``, and
    ``changed`` with the names of the arguments that it rewrote."""
    message_id: str = ""
    step_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolProgressEvent(Event):
    """How far a call is; the newest one counts."""

    call_id: str
    name: str
    done: float | None = None
    """How much is done, in a unit of the tool's own."""
    total: float | None = None
    """With ``done``: how much there is to do."""
    message: str | None = None
    step_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolLogEvent(Event):
    """A line that a tool logged during a call."""

    call_id: str
    name: str
    level: str
    """debug, info, notice, warning, error, critical, alert or emergency."""
    message: str
    logger: str | None = None
    left_out: int | None = None
    """How many lines before this one are not in the run's log, since they were too many."""
    step_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolResultEvent(Event):
    """The outcome of a tool call."""

    call_id: str
    name: str
    outcome: str
    """done, failed, refused or unknown."""
    code: str | None = None
    """Of the error because of which the call was refused or failed."""
    result: Any = None
    attempt: int | None = None
    duration_ms: int | None = None
    recorded_in: str | None = None
    """The run whose recorded outcome this is: the tool was not called."""
    message_id: str = ""
    step_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ApprovalEvent(Event):
    """A question to a person, or its answer, which has ``decision`` and ``by``."""

    approval_id: str
    call_id: str | None = None
    name: str | None = None
    arguments: Mapping[str, Any] | None = None
    digest: str | None = None
    decisions: Sequence[str] | None = None
    expires_at: str | None = None
    on_expiry: str | None = None
    """What is done without an answer: reject or take_default (the call); absent: the run fails."""
    approvers: int | None = None
    """How many persons have to approve; absent: one."""
    approved_by: Sequence[str] | None = None
    """Those that have approved so far, where several have to; without ``decision`` more have to."""
    scopes: Sequence[str] | None = None
    """For which later calls of the tool an approval may hold too; absent: for none."""
    scope_s: int | None = None
    """With ``scopes``: for how many seconds at most."""
    scope: str | None = None
    """With ``decision``: for which later calls it holds too."""
    until: str | None = None
    """With ``scope``: when that ends, UTC."""
    kind: str | None = None
    """With a form: ``arguments`` where the call lacks some, ``input`` where its tool asks."""
    form: Mapping[str, Any] | None = None
    """JSON Schema of the answer, where the question is a form."""
    input_schema: Mapping[str, Any] | None = None
    """Before a call: JSON Schema of its arguments; its ``description`` says what the tool does."""
    answer: Any = None
    """With ``decision`` ``answer``: the filled-in form."""
    result_digest: str | None = None
    """With ``decision``: SHA-256 of the result or the answer given, as canonical JSON."""
    reason: str | None = None
    decision: str | None = None
    by: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageEvent(Event):
    """A whole message as it entered the thread; it makes the text of its pieces final."""

    role: str
    content: str | None = None
    reasoning: str | None = None
    tool_calls: Sequence[Mapping[str, Any]] | None = None
    call_id: str | None = None
    partial: bool | None = None
    validation: Mapping[str, Any] | None = None
    """Of the answer to an input that the agent's prompt guard refused."""
    message_id: str = ""
    step_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChildEvent(Event):
    """A child run's state changed."""

    child_run_id: str
    agent: str
    status: str
    call_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeEvent(Event):
    """The state of a workflow's node changed."""

    node_id: str
    node_type: str
    status: str
    """started, waiting, done, failed, skipped or compensated."""
    path: Sequence[str | int] = ()
    """The scope in which it is walked: a FOR_EACH and the index of its item, ``["items", 17]``; none: the graph."""
    branch: str | None = None
    """The handle of the edges that are followed, where the node has chosen."""
    attempt: int | None = None
    duration_ms: int | None = None
    step_id: str | None = None
    content: str | None = None
    """Why it failed, what it waits for, or what is unusual about it, as a sentence."""
    counts: Mapping[str, int] | None = None
    """Of a FOR_EACH whose items child runs work on: how many of these are at their end by now, by status."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ControlEvent(Event):
    """What a client requested of the run, and what became of it."""

    control_id: str
    verb: str
    """stop, steer, pause, resume, set or signal."""
    state: str
    """accepted, consumed, refused or undelivered."""
    by: str | None = None
    content: str | None = None
    reason: str | None = None
    consumed_at: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class HandoverEvent(Event):
    """Another agent continues the run."""

    from_agent: str
    to_agent: str
    reason: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class HistoryEvent(Event):
    """What the thread says about its past changed."""

    kind: str
    """compacted, rolled_back, forked or edited."""
    from_seq: int | None = None
    to_seq: int | None = None
    summary: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class WithdrawnEvent(Event):
    """Numbers of events that a lost attempt had streamed, or of a log that was not kept; drop those events."""

    ranges: Sequence[Sequence[int]]
    """``[[first, last], ...]``, closed."""
    reason: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorEvent(Event):
    """An error; the run may continue."""

    code: str
    message: str
    retryable: bool = False
    attempt: int | None = None
    retry_in_ms: int | None = None
    call_id: str | None = None
    from_model: str | None = None
    """The model that failed, where another one is asked in its place."""
    to_model: str | None = None
    """That other model; it answers from here on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EndEvent(Event):
    """The last event of a run, exactly once."""

    status: str
    """succeeded, failed, cancelled or dead."""
    reason: str | None = None
    output: Any = None
    usage: Mapping[str, int] | None = None
    cost_usd: float | None = None
    steps: int | None = None
    duration_ms: int | None = None
    work_ms: int | None = None
    """Of the duration, how long workers owned the run."""
    not_undone: Sequence[Mapping[str, Any]] | None = None
    """Of a workflow that has not succeeded: ``node``, ``tool`` and ``reason`` of each call that nothing has undone."""


EVENT_TYPES: Mapping[str, type[Event]] = {
    "status": StatusEvent,
    "response": ResponseEvent,
    "reasoning": ReasoningEvent,
    "tool": ToolEvent,
    "tool_progress": ToolProgressEvent,
    "tool_log": ToolLogEvent,
    "tool_result": ToolResultEvent,
    "approval": ApprovalEvent,
    "message": MessageEvent,
    "child": ChildEvent,
    "node": NodeEvent,
    "control": ControlEvent,
    "handover": HandoverEvent,
    "history": HistoryEvent,
    "withdrawn": WithdrawnEvent,
    "error": ErrorEvent,
    "end": EndEvent,
}


def event_of(raw: Mapping[str, Any]) -> Event:
    """Return a decoded event; one that lacks a field of its type is an ``UnknownEvent``.

    Raises:
        KeyError: it is no event: it has no ``type`` or no ``seq``.
    """
    kind = EVENT_TYPES.get(raw["type"], UnknownEvent)
    try:
        return kind.of(raw)
    except KeyError:
        return UnknownEvent.of(raw)
