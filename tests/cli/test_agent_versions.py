"""`agents versions | diff | promote | rollback` and `runs upgrade`, as a person types them."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from agents.runner import Runner
from cli.doctor.agents import check_agents
from config.settings import Settings
from tests.cli.test_tools import AGENT, Type, type_
from web.doctor.versions import check_versions, check_waiting_runs

__all__ = ["type_"]
DESK = "name: Desk\nmodel: demo/assistant\nsystem_prompt: You help.\ntools: [agent:tester]\n"


@pytest.fixture
def file(tmp_path: Path, type_: Type) -> Path:
    path = tmp_path / "agents" / "tester.yaml"
    type_("agents", "tester")
    path.write_text(AGENT.replace("You are a test.", "You are another test."))
    return path


def own_settings(folder: Path) -> Settings:
    return Settings(state_dir=folder / "state", agents_dir=str(folder / "agents"), default_agent="tester")


def test_versions_are_listed_compared_promoted_and_taken_back(
    type_: Type, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert type_("agents", "versions", "tester") == 0
    newest, first = capsys.readouterr().out.splitlines()[-2:]
    assert (newest.split()[0], newest.endswith("in its file"), first.split()[0]) == ("2", True, "1")

    assert type_("agents", "diff", "tester", "1", "2") == 0
    assert capsys.readouterr().out == "system_prompt\n  - You are a test.\n  + You are another test.\n"
    assert type_("agents", "promote", "tester", "1") == 0
    assert type_("agents", "promote", "tester", "2", "--as", "canary", "--share", "20%", "--json") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "stable: version 1 for new runs of 100 % of the threads."
    assert orjson.loads(lines[1])["aliases"]["canary"] == {"version": 2, "share": 20}
    assert type_("agents", "--json") == 0
    assert orjson.loads(capsys.readouterr().out)[0]["version"] == 1
    assert type_("agents", "rollback", "tester") == 0
    assert type_("agents", "promote", "tester", "latest") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "New runs of tester get what its file says."


@pytest.mark.parametrize(
    ("words", "status", "complaint"),
    [
        (["promote", "tester", "9"], 2, "no version 9; its versions, the newest first: 2, 1"),
        (["promote", "tester", "2", "--as", "canary"], 2, "has no stable version"),
        (["promote", "tester", "newest"], 2, "write its number, or 'latest'"),
        (["promote", "tester", "1", "--share", "5%"], 2, "--share is of a canary"),
        (["promote", "tester", "1", "--as", "canary", "--share", "all"], 2, "write 1% to 99%"),
        (["promote", "unknown", "1"], 2, "no agent or workflow is called 'unknown'"),
        (["diff", "tester", "1", "9"], 2, "no version 9"),
    ],
)
def test_what_there_is_not_is_refused(
    type_: Type, file: Path, words: list[str], status: int, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert type_("agents", *words) == status
    assert complaint in capsys.readouterr().err


def test_a_broken_file_is_reported_with_the_version_that_serves(
    type_: Type, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text("name: [")

    assert type_("agents") == 1
    assert "does not load; version 1 serves" in capsys.readouterr().out
    ((verdict, text),) = check_versions(own_settings(tmp_path))
    assert (verdict, "tester: its file cannot be used, so version 1 serves" in text) == ("warn", True)


def test_a_run_of_a_version_that_serves_in_place_of_a_broken_file_says_so(
    type_: Type, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert type_("run", "tester", "Hi", "--detach") == 0
    before = capsys.readouterr().err
    file.write_text("name: [")

    assert type_("run", "tester", "Hi", "--detach") == 0

    assert "warning: the last version" not in before
    assert f"warning: the last version that could be used serves, because its file cannot: {file}" in (
        " ".join(capsys.readouterr().err.split())
    )


def test_an_agent_that_delegates_to_one_whose_last_version_serves_can_be_used(
    type_: Type, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.with_name("desk.yaml").write_text(DESK)
    assert type_("agents", "desk") == 0
    file.write_text("name: [")
    capsys.readouterr()

    assert type_("agents", "desk") == 0
    out, err = capsys.readouterr()
    assert (out[0], "warning: " in err) == ("!", True)
    assert "'agent:tester': its file cannot be used, so its last version, 2, serves" in err
    findings = [(verdict, text) for verdict, text in check_agents(own_settings(tmp_path)) if "agent:tester" in text]
    assert [verdict for verdict, _ in findings] == ["warn"]

    file.with_name("desk.yaml").write_text(DESK.replace("tester", "never"))
    assert type_("agents", "desk") == 1


def test_a_waiting_run_is_named_by_the_doctor_and_moved(
    type_: Type, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = own_settings(tmp_path)
    assert type_("tools", "call", "book", '{"room": "7"}', "--no-wait") == 3
    runner = Runner.open(settings)
    ((run_id,),) = ([run["run_id"]] for run in runner.journal.readers.runs.newest(runner.principal, limit=1))
    with runner.journal.database.write() as connection:
        connection.exec_driver_sql("UPDATE runs SET reason = 'code_version', detail = 'It lacks the tool book.'")
    ((verdict, text),) = check_waiting_runs(settings)
    assert (verdict, f"runs upgrade {run_id}" in text, "lacks the tool book" in text) == ("warn", True, True)
    runner.close()

    file.write_text(AGENT.replace("You are a test.", "You are a third test."))
    assert type_("runs", "upgrade", run_id, "--json") == 2
    assert type_("runs", "upgrade", run_id, "--yes") == 0
    printed = capsys.readouterr().out
    assert f"{run_id} is queued" in printed
    assert "  + You are a third test." in printed
    assert type_("runs", "upgrade", run_id, "--yes") == 2
    assert "is queued and keeps the version that it has" in capsys.readouterr().err


def test_a_paused_run_is_moved_and_the_terminal_says_how_it_continues(
    type_: Type, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert type_("run", "tester", "Hello", "--detach", "--json") == 0
    run_id = orjson.loads(capsys.readouterr().out.splitlines()[-1])["run_id"]
    assert type_("pause", run_id) == 0
    file.write_text(AGENT.replace("You are a test.", "You are a third test."))

    assert type_("runs", "upgrade", run_id, "--yes") == 0
    printed = capsys.readouterr().out.splitlines()[-1]

    assert printed == f"{run_id} has this version, and is still paused; ./callboard resume {run_id} continues it."
    assert type_("resume", run_id) == 0
    assert f"{run_id} is queued" in capsys.readouterr().out
