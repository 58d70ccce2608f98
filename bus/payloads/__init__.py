"""The events that observers and viewers get: every event type, declared once.

A declaration has the type's name on the wire, its fields, the hook for observers and its line in a log; the codec, the
observers' base class, the signals and the log files follow from it. A *delta* is a piece of a message that is still
being made; every other event is committed in SQL before it is delivered. Unknown types and unknown fields survive a
round trip.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from bus.payloads.log_lines import call_text, calls_text, given, text
from bus.payloads.payload import DELTA_TYPES as DELTA_TYPES
from bus.payloads.payload import EVENT_TYPES as EVENT_TYPES
from bus.payloads.payload import Payload as Payload
from bus.payloads.payload import Record as Record
from bus.payloads.payload import UnknownPayload as UnknownPayload
from bus.payloads.payload import decode as decode
from bus.payloads.payload import encode as encode
from bus.payloads.payload import event
from bus.payloads.payload import from_event as from_event
from bus.payloads.thread_events import ChildPayload as ChildPayload
from bus.payloads.thread_events import ControlPayload as ControlPayload
from bus.payloads.thread_events import HandoverPayload as HandoverPayload
from bus.payloads.thread_events import HistoryPayload as HistoryPayload
from bus.payloads.thread_events import NodePayload as NodePayload
from config.redaction import redact

Outcome = Literal["done", "failed", "refused", "cancelled", "unknown"]
"""Of a tool call; ``cancelled``: the run was stopped while it was open, and it certainly had no effect."""
EndStatus = Literal["succeeded", "failed", "cancelled", "dead"]
TERMINAL: frozenset[str] = frozenset({"succeeded", "failed", "cancelled", "dead"})
"""The terminal states of a run."""
EXPIRED = "expired"
"""The reason of a ``withdrawn`` event for an expired log."""


@event("status")
class StatusPayload(Payload):
    """The run's state changed."""

    status: str
    """queued, running, waiting or moved."""
    reason: str | None = None
    attempt: int | None = None
    """Which owner of the run this is, from 1."""
    agent: str | None = None
    privilege: Mapping[str, str] | None = None
    """Of a run that was started with a privilege grant: ``grant_id``, ``by`` whom it was issued, ``reason`` and
    ``expires_at``."""
    trace_id: str | None = None
    """Of the run, in its first event."""
    correlation_id: str | None = None
    """The one that a client chose for the run, or else the trace id, in its first event."""
    context: Mapping[str, Any] | None = None
    """Of the run's first event: its golden context, ``app_id``, ``environment``, ``initiator_id`` and ``trace_id``, and
    where they are declared ``cost_center`` and ``data_classification``."""

    @staticmethod
    def log_line(record: Record) -> str:
        granted = record.get("privilege") or {}
        privilege = f", privileged by {granted.get('by')}: {granted.get('reason')}" if granted else ""
        reason = given(record, "reason", ": {}")
        return f"{record['status']}{given(record, 'attempt', ', attempt {}')}{reason}{privilege}"


@dataclass(frozen=True, kw_only=True, slots=True)
class TextPayload(Payload):
    """A piece of text, many times a second."""

    is_delta: ClassVar[bool] = True

    content: str = field(metadata={"if_absent": ""})
    message_id: str = ""
    step_id: str = ""

    @staticmethod
    def log_line(record: Record) -> str:
        return str(record.get("content", ""))


@event("response", hook="on_text")
class ResponsePayload(TextPayload):
    """A piece of the answer, many times a second."""


@event("reasoning")
class ReasoningPayload(TextPayload):
    """A piece of the model's thinking, many times a second."""


@event("tool")
class ToolPayload(Payload):
    """A tool call: first perhaps its name alone, then once with its arguments."""

    call_id: str
    name: str
    arguments: Mapping[str, Any] | None = None
    content: str | None = None
    """A readable form of the call, for lines and cards."""
    digest: str | None = None
    """SHA-256 of the arguments, as the call's step and a question about the call have it."""
    effect: str | None = None
    attempt: int | None = None
    """1, and one more for each retry, and each time that a worker resumed the run before the call had ended."""
    identity: str | None = None
    """Of a tool of an MCP server: ``mcp:server/tool``, by which rules know it."""
    policy: Mapping[str, Any] | None = None
    """What the policy decided, where it is not that the call is made as it is: ``verdict``, ``rule``, ``reason``, and
    ``changed`` with the names of the arguments that it rewrote."""
    message_id: str = ""
    step_id: str = ""

    @staticmethod
    def log_line(record: Record) -> str:
        call = call_text(record["name"], record.get("arguments")) + given(record, "effect", " [{}]")
        return call + given(record.get("policy") or {}, "verdict", " policy: {}")


@event("tool", delta_without="arguments")
class ToolNamePayload(ToolPayload):
    """The name of a tool whose arguments are still streamed."""


@event("tool_progress")
class ToolProgressPayload(Payload):
    """How far a call is; the newest one counts, and several a second are not written."""

    call_id: str
    name: str
    done: float | None = None
    """How much is done, in a unit of the tool's own."""
    total: float | None = None
    """With ``done``: how much there is to do."""
    message: str | None = None
    step_id: str = ""

    @staticmethod
    def log_line(record: Record) -> str:
        done = f"{record.get('done', '')}{given(record, 'total', ' of {}')}"
        return ": ".join(filter(None, (f"{record['name']} {done}".strip(), record.get("message"))))


@event("tool_log")
class ToolLogPayload(Payload):
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

    @staticmethod
    def log_line(record: Record) -> str:
        left_out = given(record, "left_out", " ({} lines before it are left out)")
        logger = given(record, "logger", " {}")
        return f"{record['name']} {record['level']}{logger}: {record['message']}{left_out}"


@event("tool_result")
class ToolResultPayload(Payload):
    """The outcome of a tool call."""

    call_id: str
    name: str
    outcome: Outcome
    code: str | None = None
    """Of the error because of which the call was refused or failed."""
    result: Any = None
    attempt: int | None = None
    """1, and one more for each retry, and each time that a worker resumed the run before the call had ended."""
    duration_ms: int | None = None
    recorded_in: str | None = None
    """The run whose recorded outcome this is: the tool was not called."""
    message_id: str = ""
    step_id: str = ""

    @staticmethod
    def log_line(record: Record) -> str:
        took = given(record, "duration_ms", " in {} ms") + given(record, "recorded_in", " in {}, not called again")
        result = f": {text(record['result'])}" if "result" in record else ""
        return f"{record['name']} {record['outcome']}{took}{result}"


@event("approval")
class ApprovalPayload(Payload):
    """A question to a person, or its answer."""

    approval_id: str
    call_id: str | None = None
    name: str | None = None
    arguments: Mapping[str, Any] | None = None
    digest: str | None = None
    decisions: Sequence[str] | None = None
    expires_at: str | None = None
    on_expiry: str | None = None
    """What is done without an answer: ``reject`` or ``take_default``; absent: the run fails."""
    approvers: int | None = None
    """How many persons have to approve; absent: one."""
    approved_by: Sequence[str] | None = None
    """Those that have approved so far, where several have to; without ``decision`` more have to."""
    reason: str | None = None
    decision: str | None = None
    by: str | None = None
    scopes: Sequence[str] | None = None
    """For which later calls of the tool an approval may hold too: ``thread``, ``tool``; absent: none."""
    scope_s: int | None = None
    """With ``scopes``: for how many seconds at most."""
    scope: str | None = None
    """With a decision: for which later calls it holds too."""
    until: str | None = None
    """With ``scope``: when that ends, UTC."""
    kind: str | None = None
    """With a form: ``arguments`` where the call lacks some, ``input`` where its tool asks."""
    form: Mapping[str, Any] | None = None
    """The JSON Schema of the answer, where the question is a form."""
    input_schema: Mapping[str, Any] | None = None
    """Before a call: the JSON Schema of its arguments; its ``description`` says what the tool does."""
    answer: Any = None
    """With ``decision`` ``answer``: the filled-in form."""
    result_digest: str | None = None
    """With a decision: SHA-256 of the result or the answer that the person gave, as canonical JSON."""

    @staticmethod
    def log_line(record: Record) -> str:
        if "decision" in record:
            return f"{record['decision']} by {record.get('by', 'unknown')}"
        if "approved_by" in record:
            return f"approved by {', '.join(record['approved_by'])}, of {record.get('approvers')}"
        return f"asked: {call_text(record.get('name', 'the run'), record.get('arguments'))}"


@event("message")
class MessagePayload(Payload):
    """The whole message as it entered the history; it makes the text of its pieces final."""

    role: str
    content: str | None = None
    reasoning: str | None = None
    tool_calls: Sequence[Mapping[str, Any]] | None = None
    call_id: str | None = None
    partial: bool | None = None
    """True when the message was cut off by a stop or a failure."""
    validation: Mapping[str, Any] | None = None
    """Of the answer to an input that the agent's prompt guard refused: ``validationResult``, false, and
    ``validationFailedReason``."""
    message_id: str = ""
    step_id: str = ""

    @staticmethod
    def log_line(record: Record) -> str:
        cut = " (cut off)" if record.get("partial") else ""
        thought = given(record, "reasoning", "<thought: {}>")
        calls = f"<calls: {calls_text(record['tool_calls'])}>" if record.get("tool_calls") else ""
        return f"{record['role']}{cut}: {' '.join(filter(None, (record.get('content'), thought, calls)))}"


@event("withdrawn")
class WithdrawnPayload(Payload):
    """Numbers of events that a lost attempt had streamed, or of a log that was not kept; drop those events."""

    ranges: Sequence[Sequence[int]]
    """``[[first, last], ...]``, closed."""
    reason: str | None = None
    """``expired``: not a lost attempt; the log of an ended run was not kept any longer."""

    @staticmethod
    def log_line(record: Record) -> str:
        return ", ".join("-".join(str(number) for number in pair) for pair in record["ranges"])


@event("error")
class ErrorPayload(Payload):
    """An error; the run may continue."""

    code: str
    message: str
    """A sentence; secrets in it are replaced, wherever it comes from."""
    retryable: bool = False
    attempt: int | None = None
    retry_in_ms: int | None = None
    call_id: str | None = None
    """Of the tool call that failed and is made again; absent: the error is of a model call or of the run."""
    from_model: str | None = None
    """The model that failed, where another one is asked in its place."""
    to_model: str | None = None
    """That other model; it answers from here on."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", redact(str(self.message)))

    @staticmethod
    def log_line(record: Record) -> str:
        attempt = given(record, "attempt", ", attempt {}")
        then = given(record, "retry_in_ms", ", again in {} ms") + given(record, "to_model", ", {} is asked")
        return f"{record['code']}: {record['message']}{attempt}{then}"


@event("end")
class EndPayload(Payload):
    """The last event of a run, exactly once."""

    status: EndStatus
    reason: str | None = None
    output: Any = None
    usage: Mapping[str, int] | None = None
    cost_usd: float | None = None
    steps: int | None = None
    duration_ms: int | None = None
    """From the run's acceptance to its end."""
    work_ms: int | None = None
    """Of it, how long workers owned the run; the rest it waited for one, a person or a task."""
    not_undone: Sequence[Mapping[str, Any]] | None = None
    """Of a workflow that has not succeeded: the ``node`` and ``tool`` of each call that changed something which nothing
    has undone, and the ``reason``."""

    @staticmethod
    def log_line(record: Record) -> str:
        """Return how the run ended; its output is the line of its last message."""
        usage = "".join(f" {key}={value}" for key, value in (record.get("usage") or {}).items())
        totals = "".join(
            given(record, name, f" {name}={{}}") for name in ("cost_usd", "steps", "duration_ms", "work_ms")
        )
        left = ", ".join(call["node"] for call in record.get("not_undone") or ())
        return (
            f"{record['status']}{given(record, 'reason', ' {}')}{usage}{totals}{f' not undone: {left}' if left else ''}"
        )


def ranges_of(numbers: Iterable[int]) -> list[list[int]]:
    """Return sorted numbers as closed ranges: ``[1, 2, 3, 7] -> [[1, 3], [7, 7]]``."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        elif not ranges or number > ranges[-1][1]:
            ranges.append([number, number])
    return ranges
