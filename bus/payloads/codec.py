"""A payload as one line of JSON, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from bus.payloads.payload import DELTA_TYPES, EVENT_TYPES, Payload, UnknownPayload

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
        extra = {key: value for key, value in event.items() if key not in _ENVELOPE}
        return UnknownPayload(seq=event["seq"], at=event.get("at", ""), unknown_type=name, extra=extra)
    if kind.delta_without and kind.delta_without not in event:
        kind = DELTA_TYPES[name]
    values = {**kind.if_absent, **{key: event[key] for key, _ in kind.own_fields if key in event}}
    extra = {key: value for key, value in event.items() if key not in values and key not in _ENVELOPE}
    return kind(seq=event["seq"], at=event.get("at", ""), extra=extra, **values)
