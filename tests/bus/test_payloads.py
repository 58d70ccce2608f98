"""Events survive their way over the wire, whatever a newer version put into them."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bus import payloads as p

AT = "2026-11-20T12:00:00.123Z"
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
numbers = st.integers(0, 2**40)
json_values = st.recursive(
    st.booleans() | st.integers(-(2**50), 2**50) | texts,
    lambda x: st.lists(x, max_size=3) | st.dictionaries(texts, x, max_size=3),
    max_leaves=4,
)
objects = st.dictionaries(texts, json_values, max_size=3)
optional = st.none() | texts.filter(bool)

samples = st.one_of(
    st.builds(p.StatusPayload, status=texts, reason=optional, attempt=st.none() | numbers, agent=optional),
    st.builds(p.ResponsePayload, content=texts, message_id=texts, step_id=texts),
    st.builds(p.ReasoningPayload, content=texts, message_id=texts),
    st.builds(p.ToolPayload, call_id=texts, name=texts, arguments=objects, content=optional, effect=optional),
    st.builds(p.ToolNamePayload, call_id=texts, name=texts, message_id=texts),
    st.builds(
        p.ToolResultPayload,
        call_id=texts,
        name=texts,
        outcome=st.sampled_from(["done", "refused", "unknown"]),
        result=st.none() | json_values,
        duration_ms=st.none() | numbers,
    ),
    st.builds(p.ToolProgressPayload, call_id=texts, name=texts, done=st.none() | st.floats(0, 9), message=optional),
    st.builds(p.ToolLogPayload, call_id=texts, name=texts, level=texts, message=texts, left_out=st.none() | numbers),
    st.builds(p.ApprovalPayload, approval_id=texts, arguments=objects, decisions=st.none() | st.just(["a"])),
    st.builds(p.MessagePayload, role=texts, content=optional, tool_calls=st.lists(objects), partial=st.booleans()),
    st.builds(p.ChildPayload, child_run_id=texts, agent=texts, status=texts, call_id=optional),
    st.builds(p.ControlPayload, control_id=texts, verb=texts, state=texts, content=optional),
    st.builds(p.HandoverPayload, from_agent=texts, to_agent=texts, reason=optional),
    st.builds(p.HistoryPayload, kind=texts, from_seq=st.none() | numbers, summary=optional),
    st.builds(p.WithdrawnPayload, ranges=st.lists(st.lists(numbers, min_size=2, max_size=2))),
    st.builds(p.ErrorPayload, code=texts, message=texts, retryable=st.booleans(), attempt=st.none() | numbers),
    st.builds(
        p.EndPayload,
        status=st.sampled_from(sorted(p.TERMINAL)),
        output=st.none() | json_values,
        usage=st.none() | st.dictionaries(texts, numbers),
        cost_usd=st.none() | st.floats(0, 9, allow_nan=False),
    ),
)


@given(samples)
def test_every_payload_survives_the_round_trip(payload):
    line = p.encode(payload, "run_1", "thr_1")

    assert p.decode(line) == payload
    assert p.encode(p.decode(line), "run_1", "thr_1") == line


@given(samples)
def test_no_field_is_null(payload):
    event = orjson.loads(p.encode(payload, "run_1", "thr_1"))

    assert None not in event.values()


event_names = st.sampled_from([*p.EVENT_TYPES, "holiday", "x"])
strangers = st.dictionaries(texts.map(lambda name: f"x_{name}"), json_values, max_size=3)


@settings(max_examples=50)
@given(event_names, strangers)
def test_unknown_types_and_fields_survive(name, fields):
    event = {"seq": 7, "run_id": "run_1", "thread_id": "thr_1", "type": name, "at": AT} | fields

    again = orjson.loads(p.encode(p.from_event(event), "run_1", "thr_1"))

    assert {key: value for key, value in again.items() if value != ""} == {k: v for k, v in event.items() if v != ""}


def test_an_event_starts_with_its_envelope_in_the_order_of_the_wire():
    line = p.encode(p.ResponsePayload(seq=7, at=AT, content="Hi", message_id="msg_1"), "run_1", "thr_1")

    assert line == (
        b'{"seq":7,"run_id":"run_1","thread_id":"thr_1","type":"response","at":"2026-11-20T12:00:00.123Z",'
        b'"content":"Hi","message_id":"msg_1"}'
    )


def test_an_empty_result_is_a_result():
    empty = p.ToolResultPayload(call_id="c", name="n", outcome="done", result="")

    assert p.decode(p.encode(empty, "run_1", "thr_1")) == empty


def test_a_tool_call_without_arguments_is_the_delta_that_names_it():
    named = p.decode(p.encode(p.ToolNamePayload(seq=1, at=AT, call_id="c", name="n"), "r", "t"))
    whole = p.decode(p.encode(p.ToolPayload(seq=1, at=AT, call_id="c", name="n", arguments={}), "r", "t"))

    assert named.is_delta
    assert not whole.is_delta


@given(st.lists(st.integers(1, 60)))
def test_ranges_hold_exactly_the_numbers_given(given_numbers):
    ranges = p.ranges_of(given_numbers)

    held = [n for first, last in ranges for n in range(first, last + 1)]
    assert held == sorted(set(given_numbers))
    assert all(later[0] > earlier[1] + 1 for earlier, later in pairwise(ranges))


@pytest.mark.parametrize("kind", p.EVENT_TYPES.values())
def test_payloads_are_frozen(kind):
    with pytest.raises(AttributeError):
        object.__new__(kind).seq = 3


def test_an_encoded_event_takes_no_more_memory_than_its_text():
    """A log holds thousands; orjson's own bytes keep the whole buffer they were written into."""
    payload = p.ResponsePayload(seq=1, at=AT, content="word", message_id="msg_1", step_id="stp_1")

    tracemalloc.start()
    lines = [p.encode(payload, "run_1", "thr_1") for _ in range(100)]
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert taken < 3 * sum(map(len, lines))
