"""`./callboard crashtest` on a user's agent: it says what holds, and it can say that something does not."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from config.folders import ROOT
from config.settings import Settings
from tests.app_harness import write_agent
from tests.fleet import environment
from tests.model_server import Call, ModelServer, Turn
from tests.processes import run_python
from tests.reference_runs import REFERENCE_RUNS

pytestmark = [pytest.mark.journey, pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    with ModelServer() as server:
        server.respond = REFERENCE_RUNS["unsafe tool"].respond
        yield server


@pytest.fixture
def its(settings: Settings, tmp_path: Path) -> Settings:
    return settings.model_copy(update={"agents_dir": str(tmp_path / "agents")})


def crashtest(settings: Settings, *words: str) -> subprocess.CompletedProcess[str]:
    env = environment(settings) | {"PYTHONPATH": str(ROOT)}
    return run_python("-P", "-m", "cli", "crashtest", *words, env=env)


def test_an_unsafe_tool_is_asked_about_and_called_once(its: Settings, model: ModelServer, tmp_path: Path) -> None:
    write_agent(tmp_path / "agents", model, "tools: ['tests.soak.tools:pay']")

    ran = crashtest(its, "tester", "Pay 5.", "--yes", "--json", "--compare", "all")

    assert ran.returncode == 0, ran.stdout + ran.stderr
    (report,) = json.loads(ran.stdout)["routes"]
    kills = {kill["failpoint"]: kill for kill in report["kills"]}
    assert len(kills) == report["undisturbed"]["places"] == 12
    assert all(kill["was_killed"] and kill["status"] == "succeeded" for kill in kills.values())
    assert all(kill["effects"] == {'pay {"value":"5"}': 1} for kill in kills.values())
    assert kills["tool-after@1"]["asked"] == ["take_as_done"]
    assert kills["commit@1"]["asked"] == ["run_again"]
    assert kills["accept@1"]["asked"] == []
    assert not its.state.exists()  # the user's own folder was not touched


def test_a_time_in_the_result_of_a_shipped_tool_is_no_difference(settings: Settings) -> None:
    ours = settings.model_copy(update={"agents_dir": str(ROOT / "config" / "agents")})

    ran = crashtest(ours, "office", "Order 3 boxes of paper", "--model", "demo/instant", "--sample", "3", "--yes")

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "3 kills: each time the same end, the same conversation, the same effects" in ran.stdout


def test_a_call_that_is_cut_off_is_asked_about_in_every_life(
    its: Settings, model: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_agent(tmp_path / "agents", model, "tools: ['tests.soak.tools:hang_up']")
    calls = Turn(calls=[Call(name="hang_up", arguments={})])
    monkeypatch.setattr(
        model, "respond", lambda body: Turn(text="Done.") if body["messages"][-1]["role"] == "tool" else calls
    )

    ran = crashtest(its, "tester", "Hang up.", "--yes", "--json", "--sample", "2", "--seed", "1")

    assert ran.returncode == 0, ran.stdout + ran.stderr
    (report,) = json.loads(ran.stdout)["routes"]
    assert report["undisturbed"]["status"] == "succeeded"
    assert [kill["status"] for kill in report["kills"]] == ["succeeded", "succeeded"]


def test_a_tool_that_ends_its_process_is_named_as_the_cause(
    its: Settings, model: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_agent(tmp_path / "agents", model, "tools: ['tests.soak.tools:pull_the_plug']")
    calls = Turn(calls=[Call(name="pull_the_plug", arguments={})])
    monkeypatch.setattr(model, "respond", lambda _: calls)

    ran = crashtest(its, "tester", "Pull.", "--yes")

    assert ran.returncode == 1
    assert "ended its process with status 7" in ran.stderr
    assert "INFO" not in ran.stderr


def test_without_a_sentence_nothing_is_killed(its: Settings) -> None:
    ran = crashtest(its, "tester", "  ", "--yes")

    assert ran.returncode != 0
    assert "[input_empty]" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_tool_that_is_called_safer_than_it_is_does_its_harm_twice(
    its: Settings, model: ModelServer, tmp_path: Path
) -> None:
    lie = "tools: ['tests.soak.tools:pay']\ntool_overrides: {pay: {effect: pure}}"
    write_agent(tmp_path / "agents", model, lie)

    ran = crashtest(its, "tester", "Pay 5.", "--yes", "--at", "tool-after@1", "--at", "accept@1")

    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "`pay` took effect twice: it says unsafe of itself, and the agent's file says pure" in ran.stdout
    assert 'pay {"value":"5"} ×2' in ran.stdout
    assert "1 of 2 kills broke a rule: tool-after@1" in ran.stdout


def test_nothing_is_called_before_the_user_agreed(its: Settings, model: ModelServer, tmp_path: Path) -> None:
    write_agent(tmp_path / "agents", model, "tools: ['tests.soak.tools:pay']")
    model.requests.clear()

    ran = crashtest(its, "tester", "Pay 5.")

    assert ran.returncode == 2
    assert "This really calls" in ran.stderr
    assert model.requests == []


def test_ended_from_outside_it_leaves_nothing_behind(its: Settings, model: ModelServer, tmp_path: Path) -> None:
    write_agent(tmp_path / "agents", model, "tools: ['tests.soak.tools:pay']")
    left = tmp_path / "left"
    left.mkdir()
    command = [sys.executable, "-P", "-m", "cli", "crashtest", "tester", "Pay 5.", "--yes"]
    env = environment(its) | {"PYTHONPATH": str(ROOT), "TMPDIR": str(left), "PYTHONUNBUFFERED": "1"}
    piped: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(command, cwd=ROOT, env=env, **piped) as lab:
        assert lab.stdout is not None
        assert "undisturbed" in lab.stdout.readline()
        assert list(left.glob("callboard-crashtest-*"))

        lab.terminate()
        output = lab.communicate(timeout=30)[0]

    assert "Traceback" not in output
    assert not list(left.glob("callboard-crashtest-*"))


def test_a_run_that_fails_by_itself_says_nothing_about_kills(its: Settings, model: ModelServer, tmp_path: Path) -> None:
    write_agent(tmp_path / "agents", model, "tools: [no_such_tool]")

    ran = crashtest(its, "tester", "Pay 5.", "--yes")

    assert ran.returncode == 2
    assert "no_such_tool" in ran.stderr
