"""What observers and viewers see: one frozen class an event type, and their form on the wire.

A *delta* is a piece of a message still being made; every other event is committed in SQL before
anybody hears of it. Unknown types and unknown fields survive a round trip.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal

import orjson

from config.redaction import redact

Outcome = Literal["done", "failed", "refused", "unknown"]
EndStatus = Literal["succeeded", "failed", "cancelled", "dead"]
TERMINAL: frozenset[str] = frozenset({"succeeded", "failed", "cancelled", "dead"})
"""The states a run never leaves."""
EXPIRED = "expired"
"""Why an event withdraws a whole log."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Payload:
    """One event of a run's log; ``seq`` and ``at`` are given by the run's writer."""

    type: ClassVar[str] = ""
    is_delta: ClassVar[bool] = False

    seq: int = 0
    """The event's number in its run, from 1; 0 as long as it has none."""
    at: str = ""
    """When it was numbered, UTC, as ``2026-11-20T12:00:00.123Z``."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Fields of a newer version, kept as they came."""

    @property
    def event_type(self) -> str:
        """The type on the wire."""
        return type(self).type


@dataclass(frozen=True, kw_only=True, slots=True)
class StatusPayload(Payload):
    type: ClassVar[str] = "status"
    status: str
    """queued, running, waiting or moved."""
    reason: str | None = None
    attempt: int | None = None
    """Which owner of the run this is, from 1."""
    agent: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ResponsePayload(Payload):
    type: ClassVar[str] = "response"
    is_delta: ClassVar[bool] = True
    content: str
    """A piece of the answer's text."""
    message_id: str = ""
    step_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReasoningPayload(Payload):
    type: ClassVar[str] = "reasoning"
    is_delta: ClassVar[bool] = True
    content: str
    """A piece of the model's thinking."""
    message_id: str = ""
    step_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolPayload(Payload):
    """A tool call. Without ``arguments`` it is the delta that names a tool whose arguments still stream."""

    type: ClassVar[str] = "tool"
    call_id: str
    name: str
    arguments: Mapping[str, Any] | None = None
    content: str | None = None
    """A readable form of the call, for lines and cards."""
    effect: str | None = None
    message_id: str = ""
    step_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolNamePayload(ToolPayload):
    """The delta form of ``tool``: the name alone."""

    type: ClassVar[str] = "tool"
    is_delta: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolResultPayload(Payload):
    type: ClassVar[str] = "tool_result"
    call_id: str
    name: str
    outcome: Outcome
    result: Any = None
    duration_ms: int | None = None
    message_id: str = ""
    step_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ApprovalPayload(Payload):
    type: ClassVar[str] = "approval"
    approval_id: str
    call_id: str | None = None
    name: str | None = None
    arguments: Mapping[str, Any] | None = None
    digest: str | None = None
    decisions: Sequence[str] | None = None
    expires_at: str | None = None
    reason: str | None = None
    decision: str | None = None
    by: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class MessagePayload(Payload):
    """The whole message as it entered the history; it makes the text of its pieces final."""

    type: ClassVar[str] = "message"
    role: str
    content: str | None = None
    reasoning: str | None = None
    tool_calls: Sequence[Mapping[str, Any]] | None = None
    call_id: str | None = None
    partial: bool | None = None
    """True when the message was cut off by a stop or a failure."""
    message_id: str = ""
    step_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChildPayload(Payload):
    type: ClassVar[str] = "child"
    child_run_id: str
    agent: str
    status: str


@dataclass(frozen=True, kw_only=True, slots=True)
class WithdrawnPayload(Payload):
    type: ClassVar[str] = "withdrawn"
    ranges: Sequence[Sequence[int]]
    """``[[first, last], ...]`` of the numbers a lost attempt had streamed; drop them."""
    reason: str | None = None
    """``expired``: not a lost attempt; the log of an ended run was not kept any longer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorPayload(Payload):
    type: ClassVar[str] = "error"
    code: str
    message: str
    """A sentence; secrets in it are replaced, wherever it comes from."""
    retryable: bool = False
    attempt: int | None = None
    retry_in_ms: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", redact(str(self.message)))


@dataclass(frozen=True, kw_only=True, slots=True)
class EndPayload(Payload):
    """Always last, exactly once."""

    type: ClassVar[str] = "end"
    status: EndStatus
    reason: str | None = None
    output: Any = None
    usage: Mapping[str, int] | None = None
    cost_usd: float | None = None
    steps: int | None = None
    duration_ms: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class UnknownPayload(Payload):
    """An event of a type this version does not know; ``extra`` has all its fields."""

    unknown_type: str

    @property
    def event_type(self) -> str:
        return self.unknown_type


_KINDS: tuple[type[Payload], ...] = (
    StatusPayload, ResponsePayload, ReasoningPayload, ToolPayload, ToolResultPayload, ApprovalPayload,
    MessagePayload, ChildPayload, WithdrawnPayload, ErrorPayload, EndPayload,
)  # fmt: skip
_BY_TYPE = {kind.type: kind for kind in _KINDS}
_FIELDS = {
    kind: tuple(f.name for f in fields(kind) if f.name not in ("seq", "at", "extra", "unknown_type"))
    for kind in (*_KINDS, ToolNamePayload, UnknownPayload)
}
_WITH_BLANK = {
    kind: tuple((f.name, "" if f.default == "" else None) for f in fields(kind) if f.name in names)
    for kind, names in _FIELDS.items()
}
"""Each field, and the value besides None that means it is absent; an empty text somebody gave is none."""
_ENVELOPE = frozenset({"seq", "run_id", "thread_id", "type", "at"})


def encode(payload: Payload, run_id: str, thread_id: str) -> bytes:
    """Return the event as one line of JSON. Absent fields are left out; there are no nulls."""
    event: dict[str, Any] = {
        "seq": payload.seq,
        "run_id": run_id,
        "thread_id": thread_id,
        "type": payload.event_type,
        "at": payload.at,
    }
    for name, blank in _WITH_BLANK[type(payload)]:
        value = getattr(payload, name)
        if value is not None and value != blank:
            event[name] = value
    if payload.extra:
        event.update(payload.extra)
    # Its bytes keep the 4 KiB they were written into; a copy is as long as it is, and logs keep thousands.
    return bytes(memoryview(orjson.dumps(event)))


def decode(line: bytes | str) -> Payload:
    """Return the payload of one encoded event."""
    return from_event(orjson.loads(line))


def from_event(event: Mapping[str, Any]) -> Payload:
    """Return the payload of one decoded event."""
    name = event["type"]
    kind = _BY_TYPE.get(name)
    if kind is None or not _has_required(kind, event):
        extra = {key: value for key, value in event.items() if key not in _ENVELOPE}
        return UnknownPayload(seq=event["seq"], at=event.get("at", ""), unknown_type=name, extra=extra)
    if kind is ToolPayload and "arguments" not in event:
        kind = ToolNamePayload
    known = _FIELDS[kind]
    values = {key: event[key] for key in known if key in event}
    extra = {key: value for key, value in event.items() if key not in known and key not in _ENVELOPE}
    if kind in (ResponsePayload, ReasoningPayload):
        values.setdefault("content", "")
    return kind(seq=event["seq"], at=event.get("at", ""), extra=extra, **values)


_REQUIRED: dict[type[Payload], tuple[str, ...]] = {
    StatusPayload: ("status",), ToolPayload: ("call_id", "name"), ToolResultPayload: ("call_id", "name", "outcome"),
    ApprovalPayload: ("approval_id",), MessagePayload: ("role",), ChildPayload: ("child_run_id", "agent", "status"),
    WithdrawnPayload: ("ranges",), ErrorPayload: ("code", "message"), EndPayload: ("status",),
}  # fmt: skip


def _has_required(kind: type[Payload], event: Mapping[str, Any]) -> bool:
    return all(name in event for name in _REQUIRED.get(kind, ()))


def ranges_of(numbers: Iterable[int]) -> list[list[int]]:
    """Return sorted numbers as closed ranges: ``[1, 2, 3, 7] -> [[1, 3], [7, 7]]``."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        elif not ranges or number > ranges[-1][1]:
            ranges.append([number, number])
    return ranges
