"""The client's events are those that the server declares, and what a later version adds survives."""

from __future__ import annotations

import pickle
from dataclasses import fields

import orjson
import pytest

from bus.payloads import EVENT_TYPES as DECLARED
from bus.payloads import Payload, ResponsePayload, encode
from callboard_client import EndEvent, Event, ResponseEvent, UnknownEvent, event_of
from callboard_client.events import EVENT_TYPES

SAMPLE = {"seq": 3, "run_id": "run_1", "thread_id": "sums", "type": "response", "at": "2026-01-01T00:00:00.000Z"}


def test_the_client_knows_every_event_type() -> None:
    assert set(EVENT_TYPES) == set(DECLARED)


@pytest.mark.parametrize("kind", DECLARED.values())
def test_an_event_has_the_fields_that_the_server_declares(kind: type[Payload]) -> None:
    of_every_event = {event_field.name for event_field in fields(Event)}
    own = {field.name for field in fields(EVENT_TYPES[kind.type])} - of_every_event

    assert own == {name for name, _ in kind.own_fields}


@pytest.mark.parametrize("kind", DECLARED.values())
def test_an_event_without_a_field_that_its_type_needs_is_unknown(kind: type[Payload]) -> None:
    bare = SAMPLE | {"type": kind.type}
    full = bare | dict.fromkeys(kind.required, "x")

    assert isinstance(event_of(full), EVENT_TYPES[kind.type])
    for name in kind.required:
        assert isinstance(event_of({key: value for key, value in full.items() if key != name}), UnknownEvent)


def test_an_event_of_the_server_is_read_with_its_values() -> None:
    event = event_of(orjson.loads(encode(ResponsePayload(seq=3, at="now", content="Hi"), "run_1", "sums")))

    assert isinstance(event, ResponseEvent)
    assert (event.seq, event.run_id, event.thread_id, event.at) == (3, "run_1", "sums", "now")
    assert (event.content, event.event_type) == ("Hi", "response")


def test_unknown_types_and_fields_survive() -> None:
    unknown = event_of(SAMPLE | {"type": "weather", "sky": "blue"})
    event = event_of(SAMPLE | {"type": "end", "status": "succeeded", "mood": "good"})

    assert isinstance(unknown, UnknownEvent)
    assert (unknown.event_type, unknown.raw["sky"]) == ("weather", "blue")
    assert isinstance(event, EndEvent)
    assert event.raw["mood"] == "good"


@pytest.mark.parametrize("raw", [{"type": "end"}, {"seq": 1}], ids=str)
def test_what_has_no_type_or_number_is_no_event(raw: dict[str, object]) -> None:
    with pytest.raises(KeyError):
        event_of(raw)


def test_an_event_survives_pickling() -> None:
    event = event_of(SAMPLE | {"content": "Hi"})

    assert pickle.loads(pickle.dumps(event)) == event
