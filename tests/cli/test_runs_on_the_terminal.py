"""`run`, `watch`, `runs`, `cancel`, `threads` and `logs`, as a person types them, on SQL alone."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from socket import gethostname
from typing import Any

import click
import orjson
import pytest

from agents.testing import AgentKit
from bus.journal.stores import WorkerRow, Workers
from cli import options
from cli.main import status_of
from cli.output.wait_reasons import warn_of_no_worker
from config.database.engine import open_database
from config.database.migrate import migrate
from config.settings import Settings
from tests.agents.sample_tools import add
from tests.app_harness import write_agent
from tests.model_server import Call, ModelServer, Turn

Type = Callable[..., int]


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture
def type_(tmp_path: Path, model: ModelServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Type]:
    """Type a command into this test's own state folder; returns its exit status."""
    write_agent(tmp_path / "agents", model, "tools: ['tests.agents.sample_tools:add']")
    before = Path.cwd()
    monkeypatch.setenv("CALLBOARD_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("CALLBOARD_AGENTS_DIR", str(tmp_path / "agents"))
    migrate(Settings(state_dir=tmp_path / "state"))
    yield lambda *words: status_of(list(words))
    os.chdir(before)


def test_run_prints_the_answer_on_stdout_and_the_rest_on_stderr(
    type_: Type, model: ModelServer, capsys: pytest.CaptureFixture[str]
) -> None:
    sums = Turn(reasoning="Sums.", calls=[Call(name="add", arguments={"a": 1, "b": 2})])
    model.script([sums, Turn(text="It is three.")])

    status = type_("run", "tester", "What is 1 + 2?")

    output = capsys.readouterr()
    assert status == 0
    assert output.out == "It is three.\n"
    assert "Sums." in output.err
    assert "add(a=1, b=2)" in output.err
    assert "succeeded" in output.err


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
    assert "not UTF-8 text (byte 4)" in capsys.readouterr().err
    assert not model.requests


def test_a_failed_run_exits_with_one_and_says_why(
    type_: Type, model: ModelServer, capsys: pytest.CaptureFixture[str]
) -> None:
    model.script([Turn(status=400)])

    status = type_("run", "tester", "Hi")

    output = capsys.readouterr()
    assert status == 1
    assert "answered with HTTP 400" in output.err
    assert "Traceback" not in output.err


@pytest.mark.parametrize(
    ("words", "message"),
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
        (("run", "tester", "Hi", "--detatch"), "Did you mean '--detach'?"),
        (("run", "tester", "Hi", "--model", "x"), "No such option '--model'.\n"),
        (("run", "What is 17 * 23?"), 'the agent is missing: ./callboard run assistant "What is 17 * 23?"'),
        (("run", "testr"), "Did you mean 'tester'?"),
        (("run", "tester", "What", "is", "17?"), 'needs quotes around it: ./callboard run tester "What is 17?"'),
        (("run", "Pay", "$5", "now"), "needs quotes around it: ./callboard run assistant 'Pay $5 now'"),
        (("runs", "--agent", "testr"), "Did you mean 'tester'?"),
        (("runs", "--why", "--agent", "testr"), "Did you mean 'tester'?"),
    ],
)
def test_wrong_usage_is_one_sentence_and_status_two(
    type_: Type, words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status = type_(*words)

    error = capsys.readouterr().err
    assert status == 2
    assert message in error
    assert "Traceback" not in error


def test_a_cursor_beyond_the_log_is_refused(
    type_: Type, model: ModelServer, capsys: pytest.CaptureFixture[str]
) -> None:
    model.script([Turn(text="Hello you.")])
    type_("run", "tester", "Hi")

    status = type_("watch", "--after", "99999999999")

    assert status == 2
    assert "beyond the last event" in capsys.readouterr().err


def test_watch_prints_the_same_story_later_from_any_cursor(
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


@pytest.mark.parametrize(("width", "title"), [(80, "Which five countries have"), (160, "the largest population?")])
def test_runs_shows_the_title_on_terminals_of_any_width(
    type_: Type,
    model: ModelServer,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    width: int,
    title: str,
) -> None:
    model.script([Turn(text="Hello you.")])
    type_("run", "tester", "Which five countries have the largest population?")
    capsys.readouterr()
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))

    type_("runs")

    listed = capsys.readouterr().out.splitlines()
    assert listed[0].endswith("  TITLE\x1b[0m")
    assert title in listed[1]
    assert max(len(click.unstyle(line)) for line in listed) <= width


def test_a_failed_runs_code_stands_before_the_title(
    type_: Type, model: ModelServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model.script([Turn(status=400)])
    type_("run", "tester", "Which five countries have the largest population of all?")
    capsys.readouterr()
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")

    type_("runs")

    assert "(model_refused) Which" in capsys.readouterr().out


def test_detach_without_a_worker_prints_the_id_and_says_that_it_waits(
    type_: Type, model: ModelServer, capsys: pytest.CaptureFixture[str]
) -> None:
    status = type_("run", "tester", "Hi", "--detach")
    output = capsys.readouterr()
    run_id = output.out.strip()
    type_("cancel", run_id)
    cancelled = capsys.readouterr().out
    type_("cancel", run_id)

    assert status == 0
    assert run_id.startswith("run_")
    assert "no worker is alive" in output.err
    assert "is cancelled" in cancelled
    assert "had ended already" in capsys.readouterr().out


def test_the_rounds_of_a_run_are_limited_up_to_what_its_agent_allows(
    type_: Type, capsys: pytest.CaptureFixture[str]
) -> None:
    type_("run", "tester", "hello", "--detach")
    run_id = capsys.readouterr().out.split()[0]

    assert type_("set", run_id, "--max-iterations", "3") == 0
    assert type_("set", run_id, "--max-iterations", "100000") != 0
    assert "raise max_iterations in the agent's file" in capsys.readouterr().err


def test_the_priority_of_a_run_is_given_shown_and_set(type_: Type, capsys: pytest.CaptureFixture[str]) -> None:
    type_("run", "tester", "hello", "--detach", "--priority", "low")
    run_id = capsys.readouterr().out.split()[0]
    type_("runs")
    before = capsys.readouterr().out

    assert type_("set", run_id, "--priority", "high") == 0
    assert "is changed" in capsys.readouterr().out
    type_("runs", "--json")

    assert "↓ hello" in before
    assert orjson.loads(capsys.readouterr().out)[0]["priority"] == "high"
    assert type_("set", run_id) == 2
    assert "--max-iterations, --priority or both" in capsys.readouterr().err


def test_what_a_model_says_cannot_move_the_cursor(
    type_: Type, model: ModelServer, capsys: pytest.CaptureFixture[str]
) -> None:
    model.script([Turn(text=["\x1b[2Jgone", "\x07", "\u202eevil"])])

    type_("run", "tester", "Hi")

    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize("words", [["run", "tester", "Hi", "--json"], ["runs", "--json"], ["threads", "--json"]])
def test_json_of_commands_has_no_hidden_character_for_a_pipe_either(
    type_: Type, model: ModelServer, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    model.script([Turn(text=["\u202eevil\u009b2J"])] * 2)
    type_("run", "tester", "a\u202eb\u009b2J")
    capsys.readouterr()

    type_(*words)

    assert not {"\u202e", "\u009b"} & set(capsys.readouterr().out)


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
    assert "these are the newest 2; there are more" in some.err
    assert len(everything.out.splitlines()) == 3
    assert everything.err == ""


def test_a_detached_run_says_that_workers_are_starting(
    type_: Type, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lock_content = {"pid": os.getpid(), "address": "http://127.0.0.1:8000", "workers": 2}
    (tmp_path / "state" / "up.lock").write_bytes(orjson.dumps(lock_content))

    assert type_("run", "tester", "Hello?", "--detach") == 0

    assert "workers are starting (0 of 2)" in capsys.readouterr().err


def test_watch_says_that_no_worker_is_left(
    type_: Type, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def warn_and_stop(*words: Any) -> None:
        warn_of_no_worker(*words)
        assert type_("cancel", run_id) == 0

    monkeypatch.setattr("cli.commands.watch.warn_of_no_worker", warn_and_stop)
    type_("run", "tester", "Hello?", "--detach")
    run_id = capsys.readouterr().out.strip()

    assert type_("watch", run_id) == 130

    assert "no worker is alive: nothing of the run happens until one takes it" in capsys.readouterr().err


def test_why_says_that_workers_started_before_a_package_was_installed(
    type_: Type, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("config.definitions.plugins.get_path", lambda _: str(tmp_path))
    database = open_database(Settings(state_dir=tmp_path / "state").database)
    row = WorkerRow(
        id="own_1", host=gethostname(), pid=1, pool="threads", slots=1, busy=0, queue="runs", queues=("runs",)
    )
    Workers(database).renew(row)
    database.close()
    os.utime(tmp_path, (2**32, 2**32))

    assert type_("runs", "--why") == 0

    remedy = "Restart the workers: they started before the installed packages changed."
    assert remedy in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "terminal", "returns"),
    [((), False, True), ((), True, False), (("--wait",), False, False), (("--no-wait",), True, True)],
)
def test_a_command_returns_from_a_wait_for_a_person_where_no_terminal_is(
    words: tuple[str, ...], terminal: bool, returns: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal, raising=False)
    command = click.command()(options.no_wait(lambda no_wait: no_wait))

    assert command(words, standalone_mode=False) == returns


def test_a_detached_run_of_a_queue_that_no_worker_serves_names_the_worker_to_start(
    type_: Type, model: ModelServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_agent(tmp_path / "agents", model, "queue: gpu", "painter")
    database = open_database(Settings(state_dir=tmp_path / "state").database)
    row = WorkerRow(id="own_1", host="h", pid=1, pool="threads", slots=1, busy=0, queue="runs", queues=("runs",))
    Workers(database).renew(row)
    database.close()

    assert type_("run", "painter", "Hello?", "--detach") == 0

    err = capsys.readouterr().err
    assert "no worker serves queue 'gpu'" in err
    assert "./callboard worker --queues gpu" in err


def test_an_agent_without_a_file_is_known_by_its_runs(
    type_: Type, model: ModelServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model.script([Turn(text="Hello you.")])
    type_("run", "tester", "Hi")
    (tmp_path / "agents" / "tester.yaml").unlink()
    capsys.readouterr()

    assert type_("runs", "--agent", "tester") == 0
    assert "Hi" in capsys.readouterr().out
    assert type_("runs", "--why", "--agent", "tester") == 0
    assert capsys.readouterr().err == "no run is open.\n"


def test_an_agent_without_runs_is_no_slip(type_: Type, capsys: pytest.CaptureFixture[str]) -> None:
    assert type_("runs", "--agent", "tester") == 0

    assert "no run matches" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("logs", "run_nope"), ("logs", "-f", "run_nope")])
def test_the_log_of_an_unknown_run_is_a_failure(
    type_: Type, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert type_(*words) == 1

    err = capsys.readouterr().err
    assert "there is no run of that id" in err
    assert "./callboard runs" in err


def test_a_run_that_logged_nothing_is_no_failure(type_: Type, capsys: pytest.CaptureFixture[str]) -> None:
    type_("run", "tester", "Hi", "--detach")
    run_id = capsys.readouterr().out.strip()

    assert type_("logs", run_id) == 0

    assert "nothing was logged of run" in capsys.readouterr().err


COMMANDS = """
    runs | runs --why | runs rm run_1 --yes | threads | logs | logs run_1 | watch | cancel run_1 | approve run_1
"""


@pytest.mark.parametrize("words", [command.split() for command in COMMANDS.split("|")])
def test_a_slip_in_the_state_folder_makes_nothing(
    type_: Type, words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "there").mkdir()

    statuses = [type_(*words, "--state-dir", str(tmp_path / folder)) for folder in ("typo", "there")]

    err = capsys.readouterr().err
    assert statuses == [2, 2]
    assert err.count("there is no installation in") == 2
    assert not (tmp_path / "typo").exists()
    assert not list((tmp_path / "there").iterdir())


def test_a_run_warns_once_of_a_plugin_that_cannot_be_used(
    type_: Type, model: ModelServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALLBOARD_PLUGINS", "not_there_at_all:Watcher")
    model.script([Turn(text="Hello you.")])

    assert type_("run", "tester", "Hi") == 0

    err = capsys.readouterr().err
    assert err.count("warning: CALLBOARD_PLUGINS: 'not_there_at_all:Watcher' cannot be imported") == 1
    assert "write package.module:name, and install the package" in err


def test_why_says_that_workers_are_starting(type_: Type, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    type_("run", "tester", "Hello?", "--detach")
    lock_content = {"pid": os.getpid(), "address": "http://127.0.0.1:8000", "workers": 2}
    (tmp_path / "state" / "up.lock").write_bytes(orjson.dumps(lock_content))
    capsys.readouterr()

    assert type_("runs", "--why") == 0

    assert "queued; workers are starting (0 of 2)." in capsys.readouterr().out


def test_a_model_without_a_provider_is_refused_before_a_run_is_accepted(
    type_: Type, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "name: Typo\nmodel: opnai/gpt-5-mini\nsystem_prompt: You.\n"
    (tmp_path / "agents" / "typo.yaml").write_text(text)

    assert type_("run", "typo", "Hi") == 2

    assert "'opnai/gpt-5-mini' names no provider" in capsys.readouterr().err
    type_("runs", "--json")
    assert orjson.loads(capsys.readouterr().out) == []


def test_runs_spans_lists_what_calls_did(type_: Type, model: ModelServer, capsys: pytest.CaptureFixture[str]) -> None:
    write_agent(Path(os.environ["CALLBOARD_AGENTS_DIR"]), model, "tools: [list_files]")
    model.script([Turn(calls=[Call(name="list_files", arguments={})]), Turn(text="There is none.")])
    type_("run", "tester", "List the files.", "--json")
    run_id = orjson.loads(capsys.readouterr().out.splitlines()[0])["run_id"]

    assert type_("runs", "spans", run_id) == 0
    listed = capsys.readouterr().out
    assert listed.split("\t")[:4] == ["2", "list_files", "done", "file"]
    assert listed.endswith("\tlist .\n")
    assert type_("runs", "spans", run_id, "--json") == 0
    calls = orjson.loads(capsys.readouterr().out)
    assert [call["kind"] for call in calls] == ["model", "tool", "model"]
    assert [span["kind"] for span in calls[1]["spans"]] == ["file"]
    assert type_("runs", "spans", "run_none") == 2
    assert "there is no run" in capsys.readouterr().err


def test_a_run_is_repeated_from_a_step_and_failed_ones_are_retried(
    type_: Type, model: ModelServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    model.script([Turn(status=400)])
    type_("run", "tester", "What is 1 + 2?")
    (run,) = listed(type_, capsys)

    assert type_("runs", "retry", "--status", "failed", "--since", "2h") == 2
    output = capsys.readouterr()
    assert type_("runs", "retry", "--status", "failed", "--agent", "tester", "--yes", "--json") == 0
    (retry,) = orjson.loads(capsys.readouterr().out)
    assert type_("runs", "retry", "--status", "failed", "--yes") == 0
    again = capsys.readouterr()
    assert type_("runs", "rerun", run["run_id"], "--from-step", "1") == 0
    rerun = capsys.readouterr().out
    assert type_("runs", "rerun", run["run_id"], "--from-step", "9") != 0

    assert f"{run['run_id']}  tester  failed  What is 1 + 2?\n    {run['error']}\n" in output.err
    assert "Retry 1 run?" in output.err
    assert retry["retry_of"] == run["run_id"]
    assert (again.out, again.err) == ("", "no run to retry.\n")
    assert f"repeats {run['run_id']} from step 1" in rerun
    assert "has no step 9" in capsys.readouterr().err


def test_a_run_is_exported_and_replayed_offline(
    type_: Type, model: ModelServer, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    model.script([Turn(calls=[Call(name="add", arguments={"a": 1, "b": 2})]), Turn(text="It is three.")])
    type_("run", "tester", "What is 1 + 2?")
    (run,) = listed(type_, capsys)
    file = tmp_path / "recordings" / "of today" / "run.json"

    assert type_("runs", "export", run["run_id"], "-o", str(file)) == 0
    output = capsys.readouterr()
    assert type_("runs", "export", run["run_id"]) == 0
    printed = capsys.readouterr().out
    assert type_("runs", "export", "run_unknown") != 0

    assert (output.out, "answers: 2, outcomes of calls: 1." in output.err, "warning" in output.err) == ("", True, False)
    assert (printed, file.stat().st_mode & 0o777) == (file.read_text(), 0o600)
    count = len(model.requests)
    with AgentKit(tools=[add]) as kit:
        assert kit.replay(file).results("add") == [3]
        assert kit.replay(file, "tester").output == "It is three."
    assert len(model.requests) == count


@pytest.mark.parametrize("place", ["a-file/run.json", "a-link.json"])
def test_an_export_that_cannot_be_written_says_so(
    type_: Type, model: ModelServer, capsys: pytest.CaptureFixture[str], tmp_path: Path, place: str
) -> None:
    model.script([Turn(text="Hello.")])
    type_("run", "tester", "Hi")
    (run,) = listed(type_, capsys)
    (tmp_path / "a-file").touch()
    (tmp_path / "a-link.json").symlink_to(tmp_path / "a-file")

    status = type_("runs", "export", run["run_id"], "-o", str(tmp_path / place))

    sentence = " ".join(capsys.readouterr().err.split())
    assert (status, "unexpected" in sentence) == (1, False)
    assert f"{place} cannot be written: " in sentence
    assert "Name another file with --output." in sentence


@pytest.mark.parametrize("policy", ["quit", "pause", "stop:1"])
def test_an_unknown_policy_for_a_run_without_viewers_is_wrong_usage(
    type_: Type, capsys: pytest.CaptureFixture[str], policy: str
) -> None:
    status = type_("run", "tester", "Hi", "--on-disconnect", policy)

    sentence = " ".join(capsys.readouterr().err.split())
    assert status == 2
    assert "has to be `continue`, `stop:N` or `pause:N`, with N from 3 to 99999 seconds" in sentence
    assert listed(type_, capsys) == []


def listed(type_: Type, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    capsys.readouterr()
    type_("runs", "--json")
    return list(orjson.loads(capsys.readouterr().out))


@pytest.mark.parametrize(
    "words", [(), ("run_x", "--status", "dead"), ("run_x", "--agent", "a"), ("--status", "dead", "--since", "soon")]
)
def test_a_retry_is_told_what_to_retry(type_: Type, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    assert type_("runs", "retry", *words) == 2
    assert capsys.readouterr().err


def test_run_ends_behind_the_summary_of_a_thread_that_has_grown_long(
    type_: Type,
    model: ModelServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def respond(body: Mapping[str, Any]) -> Turn:
        is_summary = body["messages"][0]["content"].startswith("You write the summary")
        return Turn(text="They spoke.", first_delay_s=0.5) if is_summary else Turn(text="You are welcome.")

    monkeypatch.setattr("cli.commands.run.END_S", 0.1)
    write_agent(tmp_path / "agents", model, "compaction: {turns: 4}")
    model.respond = respond

    for number in range(5):
        assert type_("run", "tester", f"Hello {number}", "--thread", "talk") == 0
    assert capsys.readouterr().out == "You are welcome.\n" * 5

    assert type_("threads", "summaries", "talk") == 0
    assert "They spoke." in capsys.readouterr().out
    assert type_("threads", "talk") == 0
    assert "Hello 0" in capsys.readouterr().out
