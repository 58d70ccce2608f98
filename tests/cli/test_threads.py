"""`threads`: what was said stands apart from our own lines, and what is not shown is said."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import orjson
import pytest

from agents.runner import Runner
from bus.journal import Journal
from cli.main import status_of
from cli.output.quoted import width_of
from config.settings import Settings
from tests.web.conftest import RunOwner, accept

pytestmark = pytest.mark.parity

FORGED = "error: the database is damaged; run `rm -rf state`"
LIES = [
    f"fine\n{FORGED}",
    f"fine\r{FORGED}",
    " " * 66 + FORGED,
    " " * 80 + FORGED,
    "x" * 78 + FORGED,
    f"\n  you\n{FORGED}",
]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def installed(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("CALLBOARD_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("CALLBOARD_AGENTS_DIR", str(settings.agents_dir))


def on_a_terminal(monkeypatch: pytest.MonkeyPatch, *words: str) -> list[str]:
    """Return the lines a terminal of 80 columns shows, without colours."""
    terminal = Terminal()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", terminal)
        assert status_of(["threads", *words]) == 0
    lines = terminal.getvalue().replace("\x1b[2m", "").replace("\x1b[0m", "").split("\n")
    return [part for line in lines for part in wrapped(line)]


def wrapped(line: str) -> list[str]:
    """Return the line as a terminal of 80 columns breaks it."""
    parts, column = [""], 0
    for character in line:
        if column + width_of(character) > 80:
            parts.append("")
            column = 0
        parts[-1] += character
        column += width_of(character)
    return parts


@pytest.mark.parametrize("lie", LIES)
def test_no_line_of_what_was_said_can_be_taken_for_ours(
    runner: Runner, journal: Journal, monkeypatch: pytest.MonkeyPatch, lie: str
) -> None:
    RunOwner(journal, accept(runner, "Hi", thread_id="talk")).finish(lie)

    lines = on_a_terminal(monkeypatch, "talk")

    assert [line for line in lines if line and not line.startswith("│")] == ["you", "agent"]
    assert any("error: the" in line for line in lines)


@pytest.mark.parametrize("title", [" x" * 40 + FORGED, "東" * 22 + FORGED, "x" * 41 + FORGED])
def test_no_line_of_a_title_begins_where_ours_do(runner: Runner, monkeypatch: pytest.MonkeyPatch, title: str) -> None:
    accept(runner, title, thread_id="talk")

    titles, thread, *rest = on_a_terminal(monkeypatch)

    assert titles.startswith("THREAD ")
    assert thread.startswith("talk ")
    assert rest == [""]


def test_a_pipe_gets_two_columns(runner: Runner, journal: Journal, capsys: pytest.CaptureFixture[str]) -> None:
    RunOwner(journal, accept(runner, "Hi", thread_id="talk")).finish("one\ntwo")

    status_of(["threads", "talk"])

    assert capsys.readouterr().out == "         you  Hi\n       agent  one\n              two\n"


def test_an_undone_turn_and_a_text_that_no_model_got_are_marked(
    runner: Runner, capsys: pytest.CaptureFixture[str]
) -> None:
    first = accept(runner, "Hi", thread_id="talk", detached=True)
    runner.steer(first, "Be brief.", by="ann")
    accept(runner, "Rather this.", thread_id="talk", detached=True, if_busy="rollback")

    assert status_of(["threads", "talk"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "           ·  The turn below was undone: no model gets it."
    assert lines[1] == "         you  Hi"
    assert lines[-2:] == [" undelivered  Be brief.", "         you  Rather this."]


def test_the_columns_of_threads_are_below_each_other(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    for thread_id in ("sums", "a-longer-name", "n" * 60):
        accept(runner, "Hello", thread_id=thread_id)

    titles, *lines = on_a_terminal(monkeypatch)[:4]

    assert {line.index("Hello") for line in lines} == {titles.index("TITLE")}
    assert all(len(line) <= 80 for line in lines)


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_it_says_that_there_are_more_threads(
    runner: Runner, capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    for number in range(3):
        accept(runner, thread_id=f"talk-{number}")

    status_of(["threads", "--limit", "2", *options])
    cut = capsys.readouterr()
    status_of(["threads", "--limit", "3", *options])
    whole = capsys.readouterr()

    assert cut.err == "these are the 2 threads used last; there are more: --limit, --search.\n"
    assert (cut.out.count("talk-"), whole.out.count("talk-"), whole.err) == (2, 3, "")


def test_it_says_that_there_are_more_messages(
    runner: Runner, journal: Journal, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    RunOwner(journal, accept(runner, "Hi", thread_id="talk")).finish("Hello")

    status_of(["threads", "talk"])
    whole = capsys.readouterr()
    monkeypatch.setattr("cli.commands.threads.PAGE", 1)
    status_of(["threads", "talk", "--json"])
    cut = capsys.readouterr()

    assert whole.err == ""
    assert [message["content"] for message in orjson.loads(cut.out)] == ["Hi"]
    assert cut.err.startswith(
        "these are the first 1 messages; there are more: the page and GET /v1/threads/talk/messages"
    )


def test_a_fork_says_where_it_ends_and_how_to_continue(
    runner: Runner, journal: Journal, capsys: pytest.CaptureFixture[str]
) -> None:
    RunOwner(journal, accept(runner, "Hi", thread_id="talk")).finish("Hello")

    assert status_of(["threads", "fork", "talk", "--at", "2", "--as", "branch"]) == 0
    assert status_of(["threads", "fork", "talk", "--at", "7"]) != 0
    captured = capsys.readouterr()

    assert captured.out.splitlines()[0] == "branch has 2 messages of talk, up to number 2."
    assert "has no message 7; its messages have numbers from 1 to 2" in captured.err
