"""Tool calls from their pieces, whatever order and numbering a server chose."""

from __future__ import annotations

from itertools import count

import pytest

from agents.models.streams.chunk import ToolDelta
from agents.models.streams.tool_calls import CallCollector, ToolCall


def collector() -> CallCollector:
    numbers = count(1)
    return CallCollector(lambda: f"made_{next(numbers)}")


def collect(*deltas: ToolDelta) -> list[ToolCall]:
    calls = collector()
    for delta in deltas:
        calls.take(delta)
    calls.finish()
    return calls.calls()


def test_pieces_of_parallel_calls_are_sorted_by_index() -> None:
    tool_calls = collect(
        ToolDelta(index=0, id="a", name="one"),
        ToolDelta(index=1, id="b", name="two"),
        ToolDelta(index=0, arguments='{"x"'),
        ToolDelta(index=1, arguments="{}"),
        ToolDelta(index=0, arguments=": 1}"),
    )

    assert tool_calls == [ToolCall("a", "one", '{"x": 1}'), ToolCall("b", "two", "{}")]


SECRET = "live-abcdef0123456789abcdef0123"


@pytest.mark.parametrize(
    ("raw_name", "expected"),
    [
        ("send_mail", "send_mail"),
        ("x" * 47 + "_0123456789abcdef", "x" * 47 + "_0123456789abcdef"),
        (f"sk-{SECRET}", "[redacted]"),
        (f"get_sk-{SECRET}", "get [redacted]"),
        (f"get_the_{SECRET.replace('live-', 'sk_live_')}", "get_the [redacted]"),
        ("as\u202eks", "as\ufffdks"),
        ("a\nb\u200b c", "a b\ufffd c"),
        ("x" * 200, "x" * 127 + "\u2026"),
        ("\n", "\ufffd"),
    ],
)
def test_a_name_that_a_model_chose_is_one_line_without_secrets(raw_name: str, expected: str) -> None:
    calls = collector()
    calls.take(ToolDelta(index=0, id="a", name=raw_name))

    calls.finish()

    assert [call.name for call in (*calls.newly_named(), *calls.calls())] == [expected, expected]


def test_a_hundred_calls_keep_their_order() -> None:
    tool_calls = collect(*(ToolDelta(index=n, id=f"c{n}", name=f"tool_{n}", arguments="{}") for n in range(100)))

    assert [call.id for call in tool_calls] == [f"c{n}" for n in range(100)]


def test_a_missing_id_is_made_and_a_double_one_replaced() -> None:
    tool_calls = collect(
        ToolDelta(index=0, name="one", arguments="{}"),
        ToolDelta(index=1, id="same", name="two", arguments="{}"),
        ToolDelta(index=2, id="same", name="three", arguments="{}"),
    )

    assert [call.id for call in tool_calls] == ["made_1", "same", "made_2"]


@pytest.mark.parametrize(
    ("raw_id", "is_valid"),
    [
        ("call_Ab1-9", True),
        ("functions.get_weather:0", True),
        (f"call_1__thought__{'Zm9v' * 2000}+/=", True),
        ("call_1|fc_2", True),
        ("ann@example.org", False),
        ("call 1", False),
        ("line\nend", False),
        ("\u202ecall", False),
        ("sk-ant-api03-Ab12Cd34Ef56Gh78Ij90", False),
        ("x" * 40_000, False),
    ],
)
def test_an_id_that_is_more_than_one_is_replaced(raw_id: str, is_valid: bool) -> None:
    (call,) = collect(ToolDelta(index=0, id=raw_id, name="one", arguments="{}"))

    assert call.id == (raw_id if is_valid else "made_1")


def test_a_name_in_pieces_is_put_together_and_a_repeated_one_is_not() -> None:
    tool_calls = collect(
        ToolDelta(index=0, id="a", name="get_"),
        ToolDelta(index=0, name="weather"),
        ToolDelta(index=0, name="get_weather", arguments="{"),
        ToolDelta(index=0, id="a", name="get_weather", arguments="}"),
    )

    assert tool_calls == [ToolCall("a", "get_weather", "{}")]


def test_servers_that_number_every_call_0_are_understood() -> None:
    tool_calls = collect(
        ToolDelta(index=0, id="a", name="one", arguments="{}"), ToolDelta(index=0, id="b", name="two", arguments="{}")
    )

    assert [(call.id, call.name) for call in tool_calls] == [("a", "one"), ("b", "two")]


def test_a_name_is_delivered_once_as_soon_as_arguments_follow_it() -> None:
    calls = collector()
    named = []

    for delta in (
        ToolDelta(index=0, id="a", name="get_"),
        ToolDelta(index=0, name="it"),
        ToolDelta(index=0, arguments="{"),
        ToolDelta(index=0, arguments="}"),
        ToolDelta(index=1, id="b", name="last"),
    ):
        calls.take(delta)
        named.append([call.name for call in calls.newly_named()])
    calls.finish()

    assert named == [[], [], ["get_it"], [], []]
    assert [call.name for call in calls.newly_named()] == ["last"]


def test_a_nul_in_a_name_or_an_id_is_replaced_since_postgres_keeps_none() -> None:
    tool_calls = collect(
        ToolDelta(index=0, id="a\0", name="get_\0weather"),
        ToolDelta(index=0, id="a\0", name="get_\0weather", arguments="{}"),
    )

    assert tool_calls == [ToolCall("made_1", "get_\ufffdweather", "{}")]
