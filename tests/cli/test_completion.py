"""Ids that are shortened, and what a shell completes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import click
import pytest
from click.shell_completion import ShellComplete
from sqlalchemy import update

from agents.runner import Runner
from bus.identity.short_ids import IdKind, ids_like
from cli.completion.reading import ids_for_shell, read_places
from cli.completion.sketch import FILE, sketched
from cli.dev.completion import document, statements
from cli.main import COMPLETES, status_of
from config.database.tables import runs
from config.folders import ROOT
from config.settings import Settings, read_settings
from tests.terminal import environment_of
from tests.web.conftest import accept

pytestmark = pytest.mark.parity


@pytest.fixture(autouse=True)
def installed(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = Path.cwd()
    monkeypatch.setenv("CALLBOARD_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("CALLBOARD_AGENTS_DIR", str(settings.agents_dir))
    yield
    os.chdir(before)


def offered(*words: str) -> list[str]:
    """Return what a shell is offered for the last word."""
    completion = ShellComplete(sketched(), {}, "callboard", COMPLETES)
    return [item.value for item in completion.get_completions(list(words[:-1]), words[-1])]


@pytest.mark.parametrize("part", [slice(-6, None), slice(-12, None), slice(0, 20), slice(0, None)])
def test_a_part_of_an_id_names_the_run(part: slice, runner: Runner, capsys: pytest.CaptureFixture[str]) -> None:
    run_id = accept(runner, "Hello", detached=True)

    assert status_of(["cancel", run_id[part]]) == 0

    assert f"{run_id} is cancelled" in capsys.readouterr().out


def test_an_ambiguous_part_is_refused_with_the_candidates(runner: Runner, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = (accept(runner, "Hello", detached=True) for _ in range(2))

    assert status_of(["cancel", first[:8]]) == 2

    error = capsys.readouterr().err
    assert first in error
    assert second in error
    assert [runner.handle(run_id).status() for run_id in (first, second)] == ["queued", "queued"]


@pytest.mark.parametrize("part", ["", "run_", "00000", "%%%%%%", "______", "run_\u202e00", "nothere"])
def test_what_is_part_of_no_id_names_no_run(part: str, runner: Runner) -> None:
    accept(runner, "Hello", detached=True)

    assert status_of(["cancel", part]) == 2


def test_the_beginning_of_a_name_is_another_name_for_a_new_run(runner: Runner) -> None:
    accept(runner, "Hello", thread_id="customer-1042", detached=True)
    named = accept(runner, "Hello", detached=True)
    thread_id = runner.handle(named).thread_id

    assert status_of(["run", "assistant", "Hi", "--thread", "customer-10", "--detach"]) == 0
    assert status_of(["run", "assistant", "Hi", "--thread", thread_id[-6:], "--detach"]) == 0

    names = {row["thread_id"] for row in runner.journal.readers.threads.newest(runner.principal)}
    assert names == {"customer-1042", "customer-10", thread_id}


def test_ids_of_others_are_not_found(runner: Runner) -> None:
    run_id = accept(runner, "Hello", detached=True)
    stranger = runner.principal.__class__(tenant="other", id="eve")

    assert ids_like(runner.journal.database, runner.principal, "run", run_id[-6:]) == [(run_id, "Hello")]
    assert ids_like(runner.journal.database, stranger, "run", run_id[-6:]) == []


def test_commands_options_ids_and_names_are_completed(runner: Runner) -> None:
    run_id = accept(runner, "Hello", thread_id="talk", detached=True)

    assert offered("ru") == ["run", "runs"]
    assert offered("runs", "re") == ["rerun", "retry"]
    assert offered("runs", "--sta") == ["--status", "--state-dir"]
    assert offered("watch", "") == [run_id]
    assert offered("watch", run_id[-6:]) == [run_id]
    assert offered("threads", "") == ["fork", "rm", "summaries", "talk"]
    assert offered("run", "assis") == ["assistant"]
    assert offered("runs", "--agent", "assis") == ["assistant"]
    assert offered("agents", "show", "assis") == ["assistant"]
    assert offered("workflows", "assis") == []
    assert offered("set", run_id, "--priority", "") == ["low", "normal", "high"]
    assert offered("observers", "le") == ["letters"]
    assert offered("keys", "re") == ["revoke"]
    with pytest.raises(click.UsageError):
        offered("nothere", "")
    assert "--help" in offered("watch", "-")


def test_the_written_words_are_those_of_the_commands() -> None:
    assert FILE.read_text() == document(), "run `python -m cli.dev.completion`"


@pytest.mark.parametrize("part", ["", "run_", "alk", "TALK", "t%", "t_lk", "_", "/", "'", "nothere"])
def test_a_statement_finds_what_a_command_finds(part: str, runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    accept(runner, "Hello", thread_id="talk", detached=True)
    accept(runner, "Hello", thread_id="50%-off_now", detached=True)
    expected = {kind: ids_like(runner.journal.database, runner.principal, kind, part) for kind in get_args(IdKind)}

    assert {kind: ids_for_shell(statements(), kind, part, None) for kind in expected} == expected

    monkeypatch.setenv("CALLBOARD_DATABASE_URL", runner.settings.database)  # as of a server
    assert ids_for_shell(statements(), "thread", part, None) == expected["thread"]


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"CALLBOARD_STATE_DIR": "elsewhere", "CALLBOARD_TENANT": "acme", "CALLBOARD_PRINCIPAL": "anna"},
        {"callboard_state_dir": "/tmp/small-letters", "CALLBOARD_AGENTS_DIR": "a::/b"},
        {"CALLBOARD_DATABASE_URL": "postgresql://db.example/callboard"},
        {"CALLBOARD_DATABASE_URL": ""},
        {"CALLBOARD_NO_CONFIG": "1"},
        {"CALLBOARD_NO_CONFIG": "0"},
    ],
)
def test_places_are_those_of_the_settings(variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CALLBOARD_STATE_DIR", "CALLBOARD_AGENTS_DIR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    settings = read_settings()

    places = read_places()

    assert list(places.agent_folders) == settings.agent_folders
    assert (places.tenant, places.principal) == (settings.tenant, settings.principal)
    assert (f"sqlite:///{places.file}" if places.file else settings.database_url) == settings.database


def test_places_are_read_from_the_files_of_settings_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".env").write_text("CALLBOARD_STATE_DIR=of-env-file\nOTHER=1\n")
    (tmp_path / "callboard.toml").write_text('state_dir = "of-toml"\nprincipal = "anna"\nport = 9000\n')
    monkeypatch.setattr("cli.completion.reading.ROOT", tmp_path)
    monkeypatch.delenv("CALLBOARD_NO_CONFIG", raising=False)
    monkeypatch.delenv("CALLBOARD_STATE_DIR")

    places = read_places()

    assert (places.file, places.principal) == (tmp_path / "of-env-file" / "callboard.db", "anna")
    assert read_places(Path("option")).file == tmp_path / "option" / "callboard.db"


def test_a_completion_imports_nothing_heavy(runner: Runner, tmp_path: Path) -> None:
    run_id = accept(runner, "Hello", detached=True)
    heavy = "{'pydantic', 'sqlalchemy', 'celery', 'agents.runner', 'orjson', 'logging'} & set(sys.modules)"
    program = (
        "import sys\n"
        "from click.shell_completion import ShellComplete\n"
        "from cli.completion.sketch import sketched\n"
        "items = ShellComplete(sketched(), {}, 'callboard', '_X').get_completions(['watch'], '')\n"
        f"print([item.value for item in items], {heavy})"
    )
    environment = environment_of(tmp_path, tmp_path)

    ran = subprocess.run(
        [sys.executable, "-P", "-c", program], env=environment, capture_output=True, text=True, check=True
    )

    assert ran.stdout.strip() == f"['{run_id}'] set()"


def test_a_title_stays_on_its_line(runner: Runner) -> None:
    accept(runner, "Hello", detached=True)
    with runner.journal.database.write() as connection:
        connection.execute(update(runs).values(title="Two\nlines \x1b[31m\u202e" + "x" * 10_000))
    completion = ShellComplete(sketched(), {}, "callboard", COMPLETES)

    (item,) = completion.get_completions(["watch"], "")

    assert item.help is not None
    assert item.help.startswith("Two lines ⟨U+001B⟩")
    assert len(item.help) == 80


@pytest.mark.parametrize("state", ["nowhere", "a-file"])
def test_a_completion_that_cannot_be_made_prints_nothing(state: str, tmp_path: Path) -> None:
    (tmp_path / "a-file").write_text("")
    environment = environment_of(tmp_path / state, tmp_path, COMP_WORDS="callboard watch ", COMP_CWORD="2")
    environment[COMPLETES] = "bash_complete"

    ran = subprocess.run(
        [sys.executable, "-P", "-m", "cli"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )

    assert (ran.returncode, ran.stdout.strip(), ran.stderr) == (0, "", "")


@pytest.mark.parametrize(("shell", "says"), [("/usr/bin/zsh", "=zsh_complete"), ("/bin/csh", "completion fish")])
def test_without_a_name_it_is_the_shell_that_runs(
    shell: str, says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SHELL", shell)

    status = status_of(["completion"])

    assert says in "".join(capsys.readouterr())
    assert status == (2 if shell == "/bin/csh" else 0)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script_that_asks_this_checkout(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["completion", shell]) == 0

    script = capsys.readouterr().out
    assert f"{COMPLETES}={shell}_complete" in script
    assert shell == "bash" or f"{ROOT}/callboard" in script
    assert "commands[callboard]" not in script


@pytest.mark.parametrize(
    ("words", "titles"),
    [
        (("--search", "beta"), ["Beta"]),
        (("--since", "1h"), ["Beta", "Alpha"]),
        (("--until", "2020-01-01"), []),
        (("--since", "2020-01-01T00:00+02:00", "--sort", "oldest"), ["Alpha", "Beta"]),
        (("--code", "any"), []),
        (("--kind", "tool"), []),
        (("--owner", "eve"), []),
        (("--queue", "mail"), []),
    ],
)
def test_runs_are_selected_as_over_http(
    words: tuple[str, ...], titles: list[str], runner: Runner, capsys: pytest.CaptureFixture[str]
) -> None:
    for title in ("Alpha", "Beta"):
        accept(runner, title, detached=True)

    assert status_of(["runs", *words]) == 0

    assert [line.split("\t")[-1] for line in capsys.readouterr().out.splitlines()] == titles


@pytest.mark.parametrize("time", ["soon", "", "2026-13-01", "-1h", "9" * 40])
def test_what_is_no_time_is_refused(time: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["runs", f"--since={time}"]) == 2

    assert "is no time; write how long ago" in capsys.readouterr().err
