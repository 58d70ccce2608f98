"""`tools` and `tools call`, as a person types them, on SQL alone."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest

from cli.main import status_of
from config.database.migrate import migrate
from config.settings import Settings

AGENT = """\
name: Tester
model: demo/assistant
system_prompt: You are a test.
tools: ['tests.agents.sample_tools:add', 'tests.cli.test_tools:book']
tool_overrides:
  book:
    confirm: true
"""
Type = Callable[..., int]


def book(room: str) -> str:
    """Book a room.

    Args:
        room: which one.
    """
    return f"booked {room}"


@pytest.fixture
def type_(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Type]:
    """Type a command into this test's own state folder; returns its exit status."""
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "tester.yaml").write_text(AGENT)
    before = Path.cwd()
    monkeypatch.setenv("CALLBOARD_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("CALLBOARD_AGENTS_DIR", str(tmp_path / "agents"))
    monkeypatch.setenv("CALLBOARD_DEFAULT_AGENT", "tester")
    migrate(Settings(state_dir=tmp_path / "state"))
    yield lambda *words: status_of(list(words))
    os.chdir(before)


def test_the_tools_are_listed_with_their_agents(type_: Type, capsys: pytest.CaptureFixture[str]) -> None:
    assert type_("tools", "--json") == 0

    listed = {load["name"]: load for load in orjson.loads(capsys.readouterr().out)}
    assert listed.keys() == {"add", "book"}
    assert (listed["book"]["effect"], listed["book"]["agents"]) == ("unsafe", ["tester"])
    assert type_("tools") == 0
    assert "Book a room." in capsys.readouterr().out


def test_an_agent_that_cannot_be_loaded_is_warned_of(
    type_: Type, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "agents" / "other.yaml").write_text(AGENT.replace("test_tools:book", "test_tools:nothing"))

    assert type_("tools") == 0

    output = capsys.readouterr()
    assert "add" in output.out
    assert "agent 'other' is left out" in output.err


def test_the_result_is_on_stdout_and_the_rest_on_stderr(type_: Type, capsys: pytest.CaptureFixture[str]) -> None:
    status = type_("tools", "call", "add", '{"a": 20, "b": 22}')

    output = capsys.readouterr()
    assert (status, output.out) == (0, "42\n")
    assert "add(a=20, b=22)" in output.err
    assert "succeeded" in output.err
    assert type_("runs") == 0
    assert "⚙ add(a=20, b=22)" in capsys.readouterr().out


def test_arguments_are_read_from_standard_input(
    type_: Type, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO('{"a": 1, "b": 2}'))

    assert type_("tools", "call", "add", "-") == 0
    assert capsys.readouterr().out == "3\n"


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (("add", '{"a": "x", "b": 1}'), 1, "arguments_invalid"),
        (("ad", "{}"), 1, "Did you mean"),
        (("add", "[1]"), 2, "JSON object"),
        (("add", "{"), 2, "not JSON"),
        (("add", '{"a": 1, "a": 2}'), 2, "twice"),
        (("add", "{}", "--agent", "none"), 2, "agent_unknown"),
        (("x" * 129, "{}"), 2, "bad_request"),
    ],
)
def test_a_call_that_cannot_be_made_says_why(
    type_: Type, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], status: int, message: str
) -> None:
    assert type_("tools", "call", *words) == status
    output = capsys.readouterr()
    assert (output.out, message in output.err) == ("", True)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("add", '{"b": 1}'), '"a" is a required property'),
        (("add", '{"b": 1, "' + "c" * 300 + '": 1}'), '"a" is a required property'),
        (("ad", "{}"), "There is no tool 'ad'. Did you mean 'add'? The agent's tools: add, book."),
    ],
)
def test_a_failure_is_said_once(
    type_: Type, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], sentence: str
) -> None:
    assert type_("tools", "call", *words) == 1

    assert capsys.readouterr().err.count(sentence) == 1


def test_json_prints_the_events_of_the_run(type_: Type, capsys: pytest.CaptureFixture[str]) -> None:
    assert type_("tools", "call", "add", '{"a": 1, "b": 2}', "--json") == 0

    events = [orjson.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [event["type"] for event in events] == ["status", "status", "tool", "tool_result", "end"]
    assert events[-1]["output"] == 3


def test_a_detached_call_is_left_to_the_workers(type_: Type, capsys: pytest.CaptureFixture[str]) -> None:
    assert type_("tools", "call", "add", '{"a": 1, "b": 2}', "--detach", "--json") == 0

    left = orjson.loads(capsys.readouterr().out)
    assert type_("runs", "--status", "queued", "--json") == 0
    (run,) = orjson.loads(capsys.readouterr().out)
    assert (run["run_id"], run["kind"]) == (left["run_id"], "tool")


def test_a_call_that_needs_approval_returns_with_status_3(type_: Type, capsys: pytest.CaptureFixture[str]) -> None:
    assert type_("tools", "call", "book", '{"room": "B 1"}', "--no-wait") == 3

    output = capsys.readouterr()
    assert output.out == ""
    assert "approve" in output.err
