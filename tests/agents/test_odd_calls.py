"""Calls as a model should not make them, over a real stream: none is made with arguments that do not fit."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.errors import tool_not_offered
from agents.runner import Runner
from bus.payloads import EndPayload, ToolPayload, ToolResultPayload
from config.database.migrate import migrate
from config.settings import Settings
from tests.app_harness import AppHarness
from tests.model_server import Call, ModelServer, Turn

pytestmark = pytest.mark.parity

AGENT = """
tools: ['tests.agents.test_odd_calls:note', 'tests.agents.sample_tools:add']
max_iterations: 4
"""
noted: list[tuple[str, int]] = []


def note(text: str, times: int = 1) -> str:
    """Note something.

    Args:
        text: what.
        times: how often.
    """
    noted.append((text, times))
    return f"noted {text}"


@pytest.fixture
def harness(settings: Settings, tmp_path: Path, model: ModelServer) -> Iterator[AppHarness]:
    """A runner whose agent reads OpenAI's stream from a socket, without LiteLLM."""
    ours = settings.model_copy(update={"agents_dir": str(tmp_path / "agents")})
    migrate(ours)
    runner = Runner.open(ours)
    app_harness = AppHarness(runner, model, tmp_path / "agents")
    app_harness.agent(AGENT)
    noted.clear()
    yield app_harness
    runner.settle(10)
    runner.close()


def play(harness: AppHarness, *calls: Call, **turn: Any) -> tuple[list[ToolPayload], list[ToolResultPayload]]:
    """Return the events of these calls and of their results; the model got each result under the call's id."""
    harness.model.script([Turn(calls=calls, **turn), Turn(text="Done.")])
    handle = harness.run()
    assert handle.result(30).status == "succeeded"
    events = list(handle.events())
    tool_events = [event for event in events if type(event) is ToolPayload]
    results = [event for event in events if isinstance(event, ToolResultPayload)]
    sent = harness.model.requests[-1].body["messages"]
    call_ids = [call["id"] for message in sent for call in message.get("tool_calls") or ()]
    answered = [message["tool_call_id"] for message in sent if message["role"] == "tool"]
    assert sorted(call_ids) == sorted(answered)
    assert len(set(call_ids)) == len(call_ids) == len(calls)
    return tool_events, results


MALFORMED = [
    "{",
    '{"text": "a"',
    '{"text": "a",}',
    "{'text': 'a'}",
    '{"text": "a"} {"text": "b"}',
    '{"text": "a", "text": "b"}',
    '{"text": NaN}',
    '[{"text": "a"}]',
    '"text"',
    "text=a",
    '```json\n{"text": "a"}\n```',
    '{"text": "a", "times": 1e999}',
    '{"text": "a", "times": ' + "9" * 5000 + "}",
    '{"text": ' + "[" * 5000 + "]" * 5000 + "}",
    '{"text": "\\ud800"}',
    "<tool_call>note</tool_call>",
]
MISFITS: list[Any] = [
    {},
    {"text": None},
    {"text": 5},
    {"text": ["a"]},
    {"text": "a", "times": "1"},
    {"text": "a", "times": 1.5},
    {"text": "a", "times": None},
    {"text": "a", "extra": 1},
    {"text": "a", "self": 1, "args": [], "kwargs": {}},
    {"Text": "a"},
    {"text": "a", "confirm": False},
    {"arguments": {"text": "a"}},
    {"parameters": {"text": "a", "times": 2}},
]
UNKNOWN = ["", "Note", "note ", "notes", "functions.note", "note.__globals__", "../note", "tests:note", "x" * 5000]


@pytest.mark.parametrize("arguments", [*MALFORMED, *MISFITS], ids=lambda case: ascii(case)[:40])
def test_a_call_that_does_not_fit_is_not_made_and_the_model_gets_the_reason(
    harness: AppHarness, arguments: Any
) -> None:
    _, (result,) = play(harness, Call(name="note", arguments=arguments))

    assert noted == []
    assert result.outcome == "failed"
    assert str(result.result).startswith("The call was not made: ")
    assert len(str(result.result)) < 3000


@pytest.mark.parametrize("name", UNKNOWN, ids=lambda name: ascii(name)[:20])
def test_an_unknown_tool_is_answered(harness: AppHarness, name: str) -> None:
    harness.model.script([Turn(calls=[Call(name=name, arguments={"text": "a"})]), Turn(text="Done.")])

    handle = harness.run()
    end = handle.result(30)

    assert noted == []
    assert end.status in ("succeeded", "failed")
    for event in handle.events():
        assert not isinstance(event, ToolResultPayload) or "There is no tool" in str(event.result)


@pytest.mark.parametrize(
    ("names", "suffix"),
    [
        ([], "The agent's tools: none."),
        (["note", "add"], "The agent's tools: note, add."),
        ([f"t{n}" for n in range(23)], "t18, t19 and 3 more."),
    ],
)
def test_an_unknown_tool_is_told_from_the_known_ones(names: list[str], suffix: str) -> None:
    assert str(tool_not_offered("nothing_like_it", names)).endswith(suffix)


@pytest.mark.parametrize("id_", ["call_1", "", "call_x", "\x00", "x" * 10_000])
def test_calls_with_one_id_are_each_made_once(harness: AppHarness, id_: str) -> None:
    calls = [Call(name="note", arguments={"text": str(number)}, id=id_) for number in range(5)]

    tool_events, results = play(harness, *calls)

    assert sorted(noted) == [(str(number), 1) for number in range(5)]
    assert [result.outcome for result in results] == ["done"] * 5
    assert len({event.call_id for event in tool_events}) == 5


def test_a_hundred_calls_at_once_are_each_made_once_in_pieces_that_alternate(harness: AppHarness) -> None:
    calls = [Call(name="note", arguments={"text": f"text {number}"}, piece=1) for number in range(100)]

    _, results = play(harness, *calls, interleave=True)

    assert sorted(noted) == sorted((f"text {number}", 1) for number in range(100))
    assert [result.result for result in results if result.outcome != "done"] == []


@pytest.mark.parametrize("piece", [1, 2, 3, 7])
def test_arguments_and_names_may_come_in_pieces_of_any_size(harness: AppHarness, piece: int) -> None:
    text = 'Köln 👋🏽 \\ " \n {}[] \u2028 end'

    play(harness, Call(name="note", arguments={"text": text, "times": 3}, piece=piece, name_piece=piece))

    assert noted == [(text, 3)]


def test_good_and_bad_calls_beside_each_other_are_each_judged_alone(harness: AppHarness) -> None:
    calls = [
        Call(name="note", arguments={"text": "first"}),
        Call(name="note", arguments="{"),
        Call(name="nothing", arguments={}),
        Call(name="note", arguments={"text": "second", "times": "many"}),
        Call(name="add", arguments={"a": 1, "b": 2}),
        Call(name="note", arguments={"text": "third"}),
    ]

    _, results = play(harness, *calls)

    assert sorted(noted) == [("first", 1), ("third", 1)]
    assert sorted(result.outcome for result in results) == ["done"] * 3 + ["failed"] * 3


@pytest.mark.parametrize("seed", range(10))
def test_a_model_that_only_makes_such_calls_comes_to_an_end(harness: AppHarness, seed: int) -> None:
    odd = [*(Call(name="note", arguments=arguments) for arguments in (*MALFORMED, *MISFITS)), Call(name="nothing")]
    choice = random.Random(seed)
    harness.model.respond = lambda body: (
        Turn(calls=choice.sample(odd, 5)) if body.get("tools") else Turn(text="I give up.")
    )

    handle = harness.run()
    end = handle.result(60)

    assert isinstance(end, EndPayload)
    assert (end.status, noted) == ("succeeded", [])
    assert len(harness.model.requests) == 5, "four with tools, and a last one without"


def test_more_calls_than_an_answer_may_make_fail_the_run_and_none_is_made(harness: AppHarness) -> None:
    harness.model.respond = lambda _: Turn(calls=[Call(name="note", arguments={"text": "x"})] * 1001)

    end = harness.run().result(60)

    assert end.status == "failed"
    assert noted == []
