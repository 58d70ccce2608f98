"""`run` on a thread that has an open run, as a person types it and a program reads it."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from tests.app_harness import write_agent
from tests.cli.test_runs_on_the_terminal import Type, model, type_
from tests.model_server import Call, ModelServer, Turn

__all__ = ["model", "type_"]


@pytest.fixture
def waiting(type_: Type, model: ModelServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The id of a run of the thread ``mine`` that waits for a person."""
    write_agent(tmp_path / "agents", model, "tools: ['tests.agents.sample_tools:launch']")
    model.script([Turn(calls=[Call(name="launch", arguments={})])])
    assert type_("run", "tester", "Launch it.", "--thread", "mine", "--no-wait") == 3
    capsys.readouterr()
    assert type_("runs", "--json") == 0
    (run,) = orjson.loads(capsys.readouterr().out)
    return str(run["run_id"])


def test_a_run_behind_one_that_waits_for_a_person_says_so_and_returns_where_no_terminal_is(
    type_: Type, waiting: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert type_("run", "tester", "And then?", "--thread", "mine") == 3

    output = capsys.readouterr()
    assert f"queued behind {waiting} of its thread, which is waiting" in output.err
    assert f"`./callboard approve {waiting}`" in output.err
    assert (output.out, "the run is accepted" in output.err) == ("", True)


def test_a_detached_run_behind_another_one_says_so(
    type_: Type, waiting: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert type_("run", "tester", "And then?", "--thread", "mine", "--detach", "--json") == 0

    output = capsys.readouterr()
    assert f"queued behind {waiting}" in output.err
    assert orjson.loads(output.out).keys() == {"run_id", "thread_id", "workers"}


def test_a_run_of_another_thread_is_behind_none(
    type_: Type, model: ModelServer, waiting: str, capsys: pytest.CaptureFixture[str]
) -> None:
    model.script([Turn(text="Hello.")])

    assert type_("run", "tester", "Hi", "--thread", "other") == 0

    assert "queued behind" not in capsys.readouterr().err


def test_a_steer_and_a_merge_say_which_run_took_the_message(
    type_: Type, waiting: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--thread", "mine", "--detach", "--if-busy")
    assert type_("run", "tester", "Wait for rain.", *words, "steer", "--json") == 0
    steered = capsys.readouterr()
    assert type_("run", "tester", "Then report.", *words, "enqueue") == 0
    queued = capsys.readouterr().out.strip()
    assert type_("run", "tester", "In two lines.", *words, "merge") == 0
    merged = capsys.readouterr()
    assert type_("run", "tester", "Please.", *words, "merge", "--json") == 0

    facts = orjson.loads(steered.out)
    assert (facts["run_id"], facts["delivered"], facts["control_id"][:4]) == (waiting, "steered", "ctl_")
    assert f"steers {waiting}" in steered.err
    assert (merged.out, f"merged into {queued}" in merged.err) == (f"{queued}\n", True)
    assert orjson.loads(capsys.readouterr().out)["delivered"] == "merged"


def test_a_message_that_is_rejected_names_the_option_and_an_ended_run_offers_nothing_beside_its_end(
    type_: Type, waiting: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert type_("run", "tester", "And then?", "--thread", "mine", "--if-busy", "reject") == 2
    rejected = " ".join(capsys.readouterr().err.split())
    assert type_("cancel", waiting) == 0
    assert type_("set", waiting, "--priority", "low") == 2
    ended = " ".join(capsys.readouterr().err.split())

    assert "`--if-busy`" in rejected
    assert "cannot be asked to change its limits or its priority: it has ended as cancelled. [" in ended
