"""`run`, `watch`, `runs`, `cancel`, `threads` and `logs`, as a person types them, on SQL alone."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest

from tests.house import write_agent
from tests.model_server import Call, ModelServer, Turn
from web.terminal.cli import status_of

Type = Callable[..., int]


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture
def type_(tmp_path: Path, model: ModelServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Type]:
    """Type a command into a world of this test's own; returns its exit status."""
    write_agent(tmp_path / "agents", model, "tools: ['tests.agents.sample_tools:add']")
    before = Path.cwd()
    monkeypatch.setenv("CALLBOARD_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("CALLBOARD_AGENTS_DIR", str(tmp_path / "agents"))
    yield lambda *words: status_of(list(words))
    os.chdir(before)


def test_run_prints_the_answer_on_stdout_and_the_rest_on_stderr(
    type_: Type, model: ModelServer, capsys: pytest.CaptureFixture[str]
) -> None:
    model.script([
        Turn(reasoning="Sums.", calls=[Call(name="add", arguments={"a": 1, "b": 2})]), Turn(text="It is three."),
    ])  # fmt: skip

    status = type_("run", "tester", "What is 1 + 2?")

    said = capsys.readouterr()
    assert status == 0
    assert said.out == "It is three.\n"
    assert "Sums." in said.err
    assert "add(a=1, b=2)" in said.err
    assert "succeeded" in said.err


def test_run_json_prints_one_event_a_line(type_: Type, model: ModelServer, capsys: pytest.CaptureFixture[str]) -> None:
    model.script([Turn(text="Hello you.")])

    type_("run", "tester", "Hi", "--json")

    events = [orjson.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert events[-1]["type"] == "end"


def test_text_piped_in_is_the_input(
    type_: Type, model: ModelServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model.script([Turn(text="Got it.")])
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("Grüße aus der Leitung".encode())))

    status = type_("run", "tester")

    assert status == 0
    assert model.requests[-1].body["messages"][-1]["content"] == "Grüße aus der Leitung"


def test_bytes_that_are_no_text_are_refused(
    type_: Type, model: ModelServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"PNG\x89\x00")))

    status = type_("run", "tester", "-")

    assert status == 2
    assert "not text in UTF-8 (byte 4)" in capsys.readouterr().err
    assert not model.requests


def test_a_failed_run_exits_with_one_and_says_why(
    type_: Type, model: ModelServer, capsys: pytest.CaptureFixture[str]
) -> None:
    model.script([Turn(status=400)])

    status = type_("run", "tester", "Hi")

    said = capsys.readouterr()
    assert status == 1
    assert "refused the request" in said.err
    assert "Traceback" not in said.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "testr", "Hi"), "Did you mean 'tester'?"),
        (("run", "tester", "   "), "the input is empty"),
        (("run", "tester", "x" * 200_001), "200,001 characters"),
        (("run", "tester", "Hi", "--thread", "a\nb"), "a thread id has 1 to 128 printable characters"),
        (("watch", "run_nothere"), "there is no run 'run_nothere'"),
        (("watch", "--after", "minus"), "'minus' is not a cursor"),
        (("watch", "--after", "-1"), "'-1' is not a cursor"),
        (("cancel", "run_nothere"), "there is no run 'run_nothere'"),
        (("threads", "thr_nothere"), "there is no thread 'thr_nothere'"),
        (("rnus",), "Did you mean 'runs'?"),
    ],
)
def test_wrong_usage_is_one_sentence_and_status_two(
    type_: Type, words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status = type_(*words)

    error = capsys.readouterr().err
    assert status == 2
    assert said in error
    assert "Traceback" not in error


def test_a_cursor_beyond_the_log_is_refused(
    type_: Type, model: ModelServer, capsys: pytest.CaptureFixture[str]
) -> None:
    model.script([Turn(text="Hello you.")])
    type_("run", "tester", "Hi")

    status = type_("watch", "--after", "99999999999")

    assert status == 2
    assert "beyond the last event" in capsys.readouterr().err


def test_watch_tells_the_same_story_later_from_any_cursor(
    type_: Type, model: ModelServer, capsys: pytest.CaptureFixture[str]
) -> None:
    model.script([Turn(text="one two three four")])
    type_("run", "tester", "Count", "--json")
    live = capsys.readouterr().out.splitlines()

    for cursor in range(len(live)):
        type_("watch", "--after", str(cursor), "--json")
        assert capsys.readouterr().out.splitlines() == live[cursor:]


def test_runs_threads_and_logs_list_what_happened(
    type_: Type, model: ModelServer, capsys: pytest.CaptureFixture[str]
) -> None:
    model.script([Turn(text="Hello you."), Turn(text="Hello again.")])
    type_("run", "tester", "Hi there", "--thread", "talk")
    type_("run", "tester", "And again", "--thread", "talk")
    capsys.readouterr()

    type_("runs")
    runs = capsys.readouterr().out
    type_("threads", "talk")
    thread = capsys.readouterr().out
    type_("logs")
    logs = capsys.readouterr().out

    assert "Hi there" in runs
    assert "And again" in runs
    assert [line.split()[0] for line in thread.splitlines()] == ["you", "agent", "you", "agent"]
    assert logs.count(" end ") == 2
    assert "output=" not in logs  # the answer is in its message


def test_detach_without_a_worker_prints_the_id_and_says_that_it_waits(
    type_: Type, model: ModelServer, capsys: pytest.CaptureFixture[str]
) -> None:
    status = type_("run", "tester", "Hi", "--detach")
    said = capsys.readouterr()
    run_id = said.out.strip()
    type_("cancel", run_id)
    cancelled = capsys.readouterr().out
    type_("cancel", run_id)

    assert status == 0
    assert run_id.startswith("run_")
    assert "no worker is alive" in said.err
    assert "is cancelled" in cancelled
    assert "had ended already" in capsys.readouterr().out


def test_what_a_model_says_cannot_move_the_cursor(
    type_: Type, model: ModelServer, capsys: pytest.CaptureFixture[str]
) -> None:
    model.script([Turn(text=["\x1b[2Jgone", "\x07", "\u202eevil"])])

    type_("run", "tester", "Hi")

    assert "\x1b" not in capsys.readouterr().out


def test_runs_says_that_there_are_more(type_: Type, model: ModelServer, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(3):
        model.script([Turn(text="Yes.")])
        type_("run", "tester", "Is it?")
    capsys.readouterr()

    type_("runs", "--limit", "2")
    some = capsys.readouterr()
    type_("runs", "--limit", "3")
    everything = capsys.readouterr()

    assert len(some.out.splitlines()) == 2
    assert "there are more" in some.err
    assert len(everything.out.splitlines()) == 3
    assert everything.err == ""


def test_a_detached_run_says_that_workers_are_starting(
    type_: Type, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    said = {"pid": os.getpid(), "address": "http://127.0.0.1:8000", "workers": 2}
    (tmp_path / "state" / "up.lock").write_bytes(orjson.dumps(said))

    assert type_("run", "tester", "Hello?", "--detach") == 0

    assert "workers are starting (0 of 2)" in capsys.readouterr().err
