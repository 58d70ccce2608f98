"""What a person sees and presses on a real pseudo-terminal: the live list, the inbox, a chat, and widths."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from agents.runner import Runner
from bus.journal.approvals import Decision
from cli.output.quoted import text_width
from cli.supervisor.pid_lock import PidLock
from config.database.migrate import migrate
from config.folders import ROOT
from config.settings import Settings, settings
from tests.bus.questions import answer_of, asks, question_before
from tests.terminal import ESCAPES, PseudoTerminal, environment_of

pytestmark = pytest.mark.parity
AGENT = "name: Clerk\nmodel: demo/assistant\nsystem_prompt: You are a test.\ntools: [calculator, order_supplies]\n"
NASTY = "\x1b]0;owned\x07\x1b[2J請求書 🎉 \u202eevil שלום " + "x" * 10_000
Spawn = Callable[..., PseudoTerminal]


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "clerk.yaml").write_text(AGENT)
    migrate(Settings(state_dir=tmp_path / "state"))
    monkeypatch.setenv("CALLBOARD_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("CALLBOARD_AGENTS_DIR", str(tmp_path / "agents"))
    settings.cache_clear()
    return tmp_path / "state"


@pytest.fixture
def runner(state: Path) -> Iterator[Runner]:
    opened = Runner.open(Settings(state_dir=state, agents_dir=str(state.parent / "agents")), inline=False)
    yield opened
    opened.close()


@pytest.fixture
def spawn(state: Path) -> Iterator[Spawn]:
    terminals = list[PseudoTerminal]()

    def start(*words: str, columns: int = 80, lines: int = 24, **more: str) -> PseudoTerminal:
        environment = environment_of(state, state.parent / "agents", **more)
        terminals.append(PseudoTerminal(*words, environment=environment, columns=columns, lines=lines))
        return terminals[-1]

    yield start
    for terminal in terminals:
        terminal.close()


def waiting(runner: Runner, title: str = "Refund order 1042", **fields: Any) -> str:
    handle = runner.run(title, "clerk", detached=True)
    asks(runner.journal.database, handle.run_id, question_before(**fields))
    return handle.run_id


@pytest.mark.parametrize("columns", [40, 80, 300])
@pytest.mark.parametrize("command", ["runs", "threads", "agents", "tools"])
def test_lists_fit_the_terminal_whatever_titles_are(
    command: str, columns: int, runner: Runner, spawn: Spawn, state: Path
) -> None:
    runner.run(NASTY, "clerk", detached=True)

    terminal = spawn(command, columns=columns, COLUMNS="" if columns == 300 else str(columns))

    assert terminal.end() == 0
    text = ESCAPES.sub("", terminal.screen)
    assert max(map(text_width, text.splitlines())) <= columns
    assert not {"\x07", "\u202e"} & set(text)
    assert "\x1b]" not in terminal.screen
    assert "\x1b[2J" not in terminal.screen


@pytest.mark.parametrize("more", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
@pytest.mark.parametrize("words", [("runs",), ("agents",), ("doctor",), ("runs", "--why")])
def test_no_colour_where_none_is_wanted(
    words: tuple[str, ...], more: dict[str, str], runner: Runner, spawn: Spawn
) -> None:
    runner.run("Hello", "clerk", detached=True)

    terminal = spawn(*words, **more)
    terminal.end()

    assert "Hello" in terminal.screen or words in (("agents",), ("doctor",))
    assert "\x1b" not in terminal.screen


def test_the_doctor_fits_the_width(spawn: Spawn) -> None:
    terminal = spawn("doctor", columns=60)
    terminal.end()

    assert max(map(text_width, ESCAPES.sub("", terminal.screen).splitlines())) <= 60


@pytest.mark.parametrize("leave", ["\x03", "q"])
def test_a_live_list_changes_in_place_and_leaves_the_terminal_as_it_was(
    leave: str, runner: Runner, spawn: Spawn
) -> None:
    run_id = runner.run("Hello", "clerk", detached=True).run_id
    terminal = spawn("runs", "--live")
    modes = terminal.modes
    terminal.wait_for("queued")

    runner.handle(run_id).cancel(by="test")
    terminal.wait_for("cancelled")
    terminal.press(leave)

    assert terminal.end() == (130 if leave == "\x03" else 0)
    assert terminal.screen.endswith("\x1b[?25h\x1b[?1049l") or "\x1b[?1049l" in terminal.screen
    assert terminal.modes == modes


def test_the_inbox_asks_in_the_words_of_the_tool(runner: Runner, spawn: Spawn) -> None:
    for order in (1, 2):
        waiting(runner, about={"sentence": f"Pay back {order}4.90 EUR for order 104{order}"})
    terminal = spawn("approve", columns=80)
    terminal.wait_for("2 open questions")

    for order in (2, 1, 2):  # the list, and the first of it in full
        terminal.wait_for(f"Pay back {order}4.90 EUR for order 104{order}?")
    terminal.press("q")


def test_the_inbox_approves_rejects_and_says_who_was_first(runner: Runner, spawn: Spawn) -> None:
    first, second, third = (waiting(runner, f"Refund order {number}") for number in (1, 2, 3))
    terminal = spawn("approve", lines=40)
    terminal.wait_for("3 open questions")

    terminal.press("a")
    terminal.wait_for("decided: approve")
    assert answer_of(runner.journal.database, third).decision == "approve"

    (taken,) = runner.handle(second).approvals()
    terminal.press("r")
    terminal.wait_for("Why?")
    runner.handle(second).decide(taken["approval_id"], Decision(decision="approve"), by="anna")
    terminal.press("too late\r")
    terminal.wait_for("anna")

    terminal.press("r")
    terminal.wait_for("Why?")
    terminal.press("we have enough\r")
    terminal.wait_for("decided: reject")
    answer = answer_of(runner.journal.database, first)
    assert (answer.decision, answer.message) == ("reject", "we have enough")

    terminal.wait_for("No run waits")
    terminal.press("q")
    assert terminal.end() == 0


def test_arguments_are_edited_in_the_editor_and_checked_before_they_are_sent(
    runner: Runner, spawn: Spawn, tmp_path: Path
) -> None:
    editor = tmp_path / "editor"
    editor.write_text(
        f"#!/bin/sh\nif [ -e {tmp_path}/again ]; then echo '{{\"order\": 7}}' > $1; else echo nonsense > $1; fi\n"
        f"touch {tmp_path}/again\n"
    )
    editor.chmod(0o755)
    run_id = waiting(runner)
    terminal = spawn("approve", EDITOR=str(editor))
    terminal.wait_for("1 open question")

    terminal.press("e")
    terminal.wait_for("Edit again?")
    assert runner.handle(run_id).status() == "waiting"
    terminal.press("y\r")
    terminal.wait_for("decided: approve")

    assert answer_of(runner.journal.database, run_id).arguments == {"order": 7}
    terminal.press("q")
    assert terminal.end() == 0


def test_a_chat_answers_keeps_its_thread_and_its_history(spawn: Spawn, state: Path) -> None:
    terminal = spawn("chat", "clerk", columns=100)
    terminal.wait_for("> ")

    terminal.press("What is 17 * 23?\r")
    terminal.wait_for("391")
    terminal.wait_for("succeeded")
    terminal.press("/he\t\r")
    terminal.wait_for("begins another thread")
    terminal.wait_for("> ")
    for _ in range(20):  # readline misses a Ctrl-C that comes in the moment in which it shows the prompt
        terminal.press("\x03")
        with suppress(AssertionError):
            terminal.wait_for("> ", 1)
            break
    terminal.press("And 2 + 2?\r")
    terminal.wait_for("succeeded")
    terminal.wait_for("> ")
    terminal.press("\x04")
    terminal.wait_for("continue: ./callboard chat clerk --thread thr_")

    assert terminal.end() == 0
    history = state / "chat-history"
    assert history.read_text().splitlines() == ["What is 17 * 23?", "/help", "And 2 + 2?"]
    assert stat.S_IMODE(history.stat().st_mode) == 0o600


def test_a_terminated_live_list_gives_the_terminal_back(runner: Runner, spawn: Spawn) -> None:
    runner.run("Hello", "clerk", detached=True)
    terminal = spawn("runs", "--live")
    terminal.wait_for("queued")

    os.kill(terminal.pid, signal.SIGTERM)

    assert terminal.end() == 143
    assert "\x1b[?1049l" in terminal.screen


def test_a_chat_asks_the_questions_of_its_run_in_place(spawn: Spawn) -> None:
    terminal = spawn("chat", "clerk", columns=100)
    terminal.wait_for("> ")

    terminal.press("Order 3 boxes of paper\r")
    terminal.wait_for("Your answer")
    terminal.press("1\r")
    terminal.wait_for("succeeded")
    terminal.wait_for("> ")
    terminal.press("Order 5 boxes of pens\r")
    terminal.wait_for("Your answer")
    terminal.press("\r")
    terminal.wait_for("the run waits; ./callboard approve run_")
    terminal.wait_for("> ")
    terminal.press("/quit\r")

    assert terminal.end() == 0


def test_ctrl_c_stops_an_answer_and_stays_in_the_chat(spawn: Spawn) -> None:
    terminal = spawn("chat", "clerk", columns=100)
    terminal.wait_for("> ")

    terminal.press("Write 2000 words\r")
    terminal.wait_for("│")
    terminal.press("\x03")
    terminal.wait_for("cancelled")
    terminal.wait_for("> ")
    terminal.press("\x04")

    assert terminal.end() == 0


def test_lines_into_a_chat_without_a_terminal_are_messages(state: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-P", "-m", "cli", "chat", "clerk"],
        input="What is 17 * 23?\n/nope\n",
        cwd=ROOT,
        env=environment_of(state, state.parent / "agents"),
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0
    assert "**391**" in ran.stdout
    assert "\x1b" not in ran.stdout
    assert "there is no command '/nope'" in ran.stderr


def test_the_address_of_a_run_is_that_of_the_running_page(runner: Runner, state: Path, spawn: Spawn) -> None:
    handle = runner.run("Hello", "clerk", detached=True)
    without = spawn("open")
    assert without.end() == 1
    lock = PidLock(state / "up.lock")
    lock.take()
    lock.announce("http://127.0.0.1:8123")

    terminal = spawn("open", handle.run_id[-6:])

    assert terminal.end() == 0
    assert f"http://127.0.0.1:8123/#/run/{handle.run_id}" in terminal.screen
    lock.release()


def test_a_live_list_without_a_terminal_is_a_line_for_each_change(runner: Runner, state: Path) -> None:
    run_id = runner.run("Hello", "clerk", detached=True).run_id
    command = [sys.executable, "-P", "-m", "cli", "runs", "--live", "--status", "open"]
    environment = environment_of(state, state.parent / "agents")
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = process.stdout.readline().split("\t")
        second_id = runner.run("Again", "clerk", detached=True).run_id
        second = process.stdout.readline().split("\t")
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()

    assert (first[:2], second[:2], rest) == ([run_id, "queued"], [second_id, "queued"], "")
    assert process.returncode == 130
