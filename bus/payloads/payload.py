"""The base of all payloads, and the decorator that declares an event type."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

import orjson

Record = Mapping[str, Any]
"""An event's ids and fields as they are logged: absent fields are absent, secrets are replaced."""
EVENT_TYPES: dict[str, type[Payload]] = {}
"""Every event type by its name on the wire, in the order of declaration."""
DELTA_TYPES: dict[str, type[Payload]] = {}
"""The types whose events are pieces of a message, with the class of the piece."""
_ENVELOPE = ("seq", "at", "extra", "unknown_type")
_LOGGED_IDS = ("at", "run_id", "seq", "agent_id", "type", "thread_id")


@dataclass(frozen=True, kw_only=True, slots=True)
class Payload:
    """One event of a run's log; the run's writer gives ``seq`` and ``at``."""

    type: ClassVar[str] = ""
    hook: ClassVar[str] = ""
    """The observers' method and the signal for events of this type; nothing where the type is not known."""
    is_delta: ClassVar[bool] = False
    own_fields: ClassVar[tuple[tuple[str, object], ...]] = ()
    """Each field, and the value besides None that means it is absent; an empty text without such a default is not."""
    required: ClassVar[tuple[str, ...]] = ()
    """Fields without which an event is not of this type."""
    if_absent: ClassVar[Mapping[str, Any]] = {}
    """The values of required fields that an event may lack, from their metadata's ``if_absent``."""
    delta_without: ClassVar[str] = ""
    """The field whose absence makes an event the type's delta form."""

    seq: int = 0
    """The event's number in its run, from 1; 0 as long as it has none."""
    at: str = ""
    """When it was numbered, UTC, as ``2026-11-20T12:00:00.123Z``."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Fields of a newer version, kept as they came."""

    @property
    def event_type(self) -> str:
        return type(self).type

    def numbered(self, seq: int, at: str) -> Self:
        """Return the event with its number and its time."""
        return replace(self, seq=seq, at=at)

    @staticmethod
    def log_line(record: Record) -> str:
        """Return what a log line says of the event, after its ids and type."""
        return json.dumps({key: value for key, value in record.items() if key not in _LOGGED_IDS}, ensure_ascii=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class UnknownPayload(Payload):
    """An event of a type this version does not know; ``extra`` has all its fields."""

    unknown_type: str

    @property
    def event_type(self) -> str:
        return self.unknown_type


P = TypeVar("P", bound=Payload)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
def event(name: str, *, hook: str = "", delta_without: str = "") -> Callable[[type[P]], type[P]]:
    """Declare the class as the payload of the event type ``name``.

    Observers get it through their method ``hook`` (``on_<name>`` by default) and the signal of that name, with the
    class's docstring. A field without a default is required. With ``delta_without`` the class is a second form of a
    declared type: the delta, for events that lack this field.
    """

    def declare(cls: type[P]) -> type[P]:
        kind = dataclass(frozen=True, kw_only=True, slots=True)(cls)
        kind.type, kind.hook = name, hook or f"on_{name}"
        kind.is_delta = kind.is_delta or bool(delta_without)
        own = [f for f in fields(kind) if f.name not in _ENVELOPE]
        kind.own_fields = tuple((f.name, "" if f.default == "" else None) for f in own)
        kind.if_absent = {f.name: f.metadata["if_absent"] for f in own if "if_absent" in f.metadata}
        kind.required = tuple(f.name for f in own if f.default is MISSING and f.name not in kind.if_absent)
        if kind.is_delta:
            DELTA_TYPES[name] = kind
        if delta_without:
            EVENT_TYPES[name].delta_without = delta_without
        else:
            EVENT_TYPES[name] = kind
        return kind

    return declare


# --- a payload as one line of JSON, and back


_WIRE_FIELDS = frozenset({"seq", "run_id", "thread_id", "type", "at"})


def encode(payload: Payload, run_id: str, thread_id: str) -> bytes:
    """Return the event as one line of JSON. Absent fields are left out; there are no nulls."""
    event: dict[str, Any] = {
        "seq": payload.seq,
        "run_id": run_id,
        "thread_id": thread_id,
        "type": payload.event_type,
        "at": payload.at,
    }
    for name, blank in payload.own_fields:
        value = getattr(payload, name)
        if value is not None and value != blank:
            event[name] = value
    if payload.extra:
        event.update(payload.extra)
    # orjson's bytes keep the 4 KiB buffer they were written into; a copy has the length of the text, and logs keep
    # thousands.
    return bytes(memoryview(orjson.dumps(event)))


def decode(line: bytes | str) -> Payload:
    """Return the payload of one encoded event."""
    return from_event(orjson.loads(line))


def from_event(event: Mapping[str, Any]) -> Payload:
    """Return the payload of one decoded event."""
    name = event["type"]
    kind = EVENT_TYPES.get(name)
    if kind is None or not all(field in event for field in kind.required):
        extra = {key: value for key, value in event.items() if key not in _WIRE_FIELDS}
        return UnknownPayload(seq=event["seq"], at=event.get("at", ""), unknown_type=name, extra=extra)
    if kind.delta_without and kind.delta_without not in event:
        kind = DELTA_TYPES[name]
    values = {**kind.if_absent, **{key: event[key] for key, _ in kind.own_fields if key in event}}
    extra = {key: value for key, value in event.items() if key not in values and key not in _WIRE_FIELDS}
    return kind(seq=event["seq"], at=event.get("at", ""), extra=extra, **values)
