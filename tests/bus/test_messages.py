"""What comes over the queue may be anything; only messages of ours become messages."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bus.messages.look_at_tasks import LookAtTasksMessage
from bus.messages.message import MessageInvalid
from bus.messages.registry import messages
from bus.messages.run_agent import RunAgentMessage

WHOLE = RunAgentMessage(
    run_id="run_1",
    agent_id="assistant",
    thread_id="t" * 128,
    detached=True,
    definition_digest="d" * 64,
    queue="gpu",
    grant_id="grn_1",
)
ID = "4bf92f3577b34da6a3ce929d0e0e4736"


def test_a_message_survives_the_wire_and_is_small():
    wire = WHOLE.to_wire()

    assert RunAgentMessage.from_wire(orjson.loads(orjson.dumps(wire))) == WHOLE
    assert len(orjson.dumps(wire)) < 2048


@pytest.mark.parametrize("message", [LookAtTasksMessage(run_id="run_1"), LookAtTasksMessage(run_id="r", queue="gpu")])
def test_a_message_about_tasks_survives_the_wire(message: LookAtTasksMessage):
    assert LookAtTasksMessage.from_wire(orjson.loads(orjson.dumps(message.to_wire()))) == message


def test_the_registry_has_each_message_under_the_name_that_it_has_on_the_wire():
    assert messages() == {"callboard.run_agent": RunAgentMessage, "callboard.look_at_tasks": LookAtTasksMessage}


def test_what_a_newer_version_added_is_not_minded():
    assert RunAgentMessage.from_wire(WHOLE.to_wire() | {"colour": "blue"}) == WHOLE


def test_a_grant_is_an_id_and_never_a_boolean():
    assert RunAgentMessage.from_wire(WHOLE.to_wire() | {"grant": True}).grant_id is None


@pytest.mark.parametrize("chosen", [None, "order 4711, von Jörg"])
def test_its_headers_have_the_trace_and_the_correlation_id_or_else_the_trace_id(chosen: str | None):
    message = replace(WHOLE, trace_id=ID, correlation_id=chosen)

    headers = message.to_headers()

    assert headers["x-correlation-id"] == (chosen or ID)
    assert WHOLE.with_headers(orjson.loads(orjson.dumps(headers))) == message


def test_a_message_of_a_run_without_a_trace_has_no_headers():
    assert WHOLE.to_headers() == {}
    assert WHOLE.with_headers({}) == WHOLE


NO_TRACES: tuple[object, ...] = (
    None,
    7,
    "",
    ID,
    [f"00-{ID}-{'1' * 16}-01"],
    f"00-{'0' * 32}-{'1' * 16}-01",
    "x" * 60_000,
)
NO_CORRELATIONS: tuple[object, ...] = (None, 7, "", "x" * 129, "a\0b", "\ud800", ["a"], {"a": 1}, True)


@pytest.mark.parametrize("header", NO_TRACES, ids=lambda header: repr(header)[:20])
def test_what_is_no_traceparent_is_left_out(header: object):
    assert WHOLE.with_headers({"traceparent": header}) == WHOLE


@pytest.mark.parametrize("header", NO_CORRELATIONS, ids=lambda header: ascii(header)[:20])
def test_what_is_no_correlation_id_is_left_out(header: object):
    assert WHOLE.with_headers({"x-correlation-id": header}) == WHOLE


def test_detached_is_only_what_is_truly_so():
    assert RunAgentMessage.from_wire(WHOLE.to_wire() | {"detached": "yes"}).detached is False


@pytest.mark.parametrize(
    "wire",
    [
        None,
        7,
        "run_1",
        [],
        {},
        {"v": 1},
        {"v": 2, "run_id": "run_1"},
        {"v": 1, "run_id": ""},
        {"v": 1, "run_id": 7},
        {"v": 1, "run_id": "r" * 129},
        {"v": 1, "run_id": "run_1", "agent_id": ["a"]},
        {"v": "1", "run_id": "run_1"},
        {"v": 1, "run_id": None},
    ],
)
def test_garbage_and_other_versions_are_refused(wire):
    for kind in messages().values() if not isinstance(wire, dict) or "agent_id" not in wire else (RunAgentMessage,):
        with pytest.raises(MessageInvalid):
            kind.from_wire(wire)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda x: st.lists(x) | st.dictionaries(st.text(), x),
    max_leaves=4,
)


@pytest.mark.parity
@settings(max_examples=50)
@given(anything | st.fixed_dictionaries({"v": st.just(1), "run_id": anything, "agent_id": anything}))
def test_nothing_else_than_a_refusal_comes_of_garbage(wire):
    for kind in messages().values():
        with suppress(MessageInvalid):
            assert 0 < len(kind.from_wire(wire).run_id) <= 128
