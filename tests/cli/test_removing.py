"""`runs rm`, `threads rm`, and `watch` of a log that was not kept, as a person types them."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest
from sqlalchemy import update

from cli.main import status_of
from config.clock import epoch_ms
from config.database.engine import open_database
from config.database.tables import runs
from config.settings import read_settings
from tests.app_harness import write_agent
from tests.bus.ended_runs import DAY_MS, remove_old
from tests.model_server import ModelServer, Turn

Type = Callable[..., int]


@pytest.fixture
def type_(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Type]:
    """Type a command where two runs of the thread ``talk`` have ended; returns its exit status."""
    before = Path.cwd()
    monkeypatch.setenv("CALLBOARD_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("CALLBOARD_AGENTS_DIR", str(tmp_path / "agents"))
    with ModelServer() as model:
        write_agent(tmp_path / "agents", model)
        model.script([Turn(text="Hello you."), Turn(text="Hello again.")])
        for words in ("Hi there", "And again"):
            assert status_of(["run", "tester", words, "--thread", "talk", "--json"]) == 0
        yield lambda *words: status_of(list(words))
    os.chdir(before)


@pytest.fixture
def run_ids(type_: Type, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Their ids, the newest first."""
    return listed(type_, capsys)


def listed(type_: Type, capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    capsys.readouterr()
    type_("runs", "--json", *words)
    return [run["run_id"] for run in orjson.loads(capsys.readouterr().out)]


def answer(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(word.encode())))


def test_a_run_is_removed_when_the_user_agrees(
    type_: Type, run_ids: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    newer, older = run_ids

    answer(monkeypatch, "n\n")
    refused = type_("runs", "rm", older)
    output = capsys.readouterr()
    still = listed(type_, capsys)
    answer(monkeypatch, "y\n")
    agreed = type_("runs", "rm", older)

    assert (refused, still) == (130, run_ids)
    assert f"Remove run {older}" in output.err
    assert output.out == ""
    assert agreed == 0
    assert f"{older} was removed." in capsys.readouterr().out
    assert listed(type_, capsys) == [newer]
    type_("threads", "talk")
    assert capsys.readouterr().out.count("\n") == 4  # what was said stays


def test_without_a_person_to_agree_nothing_is_removed_and_the_flag_is_named(
    type_: Type, run_ids: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(monkeypatch, "")

    status = type_("runs", "rm", run_ids[0])

    output = capsys.readouterr()
    assert status == 2
    assert "--yes" in output.err
    assert listed(type_, capsys) == run_ids


def test_several_are_removed_unasked_and_reported_to_programs(
    type_: Type, run_ids: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    status = type_("runs", "rm", *run_ids, "--yes", "--json")

    assert status == 0
    assert orjson.loads(capsys.readouterr().out) == {"removed": run_ids}
    assert listed(type_, capsys) == []


def test_a_thread_is_removed_with_everything(
    type_: Type, run_ids: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    status = type_("threads", "rm", "talk", "--yes")

    assert status == 0
    assert "talk was removed." in capsys.readouterr().out
    assert listed(type_, capsys) == []
    assert type_("threads", "talk") == 2
    assert type_("watch", run_ids[0]) == 2


def test_no_confirmation_is_asked_for_what_cannot_be_removed(
    type_: Type, run_ids: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    type_("run", "tester", "Hi", "--thread", "talk", "--detach")
    waiting = capsys.readouterr().out.strip()

    for words, message in (
        (("runs", "rm", run_ids[0], waiting), f"run '{waiting}' is queued; stop it first (`./callboard cancel"),
        (("threads", "rm", "talk"), "thread 'talk' has a run that is queued; stop it first"),
        (("runs", "rm", "run_nothere"), "there is no run 'run_nothere'"),
        (("threads", "rm", "thr_nothere"), "there is no thread 'thr_nothere'"),
        (("runs", "rm"), "Missing argument 'RUN...'"),
    ):
        assert type_(*words) == 2
        error = capsys.readouterr().err
        assert message in error
        assert "Remove" not in error
    assert listed(type_, capsys) == [waiting, *run_ids]


def test_what_was_typed_before_means_what_it_did(
    type_: Type, run_ids: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert listed(type_, capsys, "--limit", "1", "--status", "succeeded") == run_ids[:1]
    assert type_("threads", "--search", "hi", "talk") == 0
    assert type_("threads", "--", "rm") == 2  # a thread of that name, which there is not
    assert "there is no thread 'rm'" in capsys.readouterr().err


def test_watching_a_log_that_was_not_kept_says_so_and_prints_the_answer(
    type_: Type, run_ids: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    settings = read_settings(retain_events_days=1)
    database = open_database(settings.database)
    with database.write() as connection:
        connection.execute(update(runs).values(ended_ms=epoch_ms() - 10 * DAY_MS))
    remove_old(database, settings)
    database.close()
    capsys.readouterr()

    status = type_("watch", run_ids[0])

    output = capsys.readouterr()
    assert status == 0
    assert output.out == "Hello again.\n"
    assert "the log was not kept" in output.err
    assert "succeeded" in output.err
