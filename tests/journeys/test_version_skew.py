"""Workers of two versions: a run that one of them began is never guessed through by the other, and never lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from sqlalchemy import select

from agents.runner import Runner
from bus.keys import Keys
from bus.messages.run_agent import RunAgentMessage
from config.database.tables import runs
from config.settings import Settings
from tests.app_harness import AppHarness
from tests.fleet import ROOT, Worker, environment
from tests.journeys.skewed_tools import FOLDER, WITHOUT
from tests.model_server import Call, ModelServer, Turn

pytestmark = [pytest.mark.journey, pytest.mark.timeout(180)]

WEIGH = Turn(text="I weigh it.", calls=[Call(name="weigh", arguments={"parcel": "A"}, id="call_1")])
DONE = Turn(text="It weighs 2 kg.")


@pytest.fixture
def hasty(fleet_settings: Settings) -> Settings:
    """Settings with which a lost worker is found out soon."""
    return fleet_settings.model_copy(update={"lease_s": 2.0, "beat_s": 0.6, "reap_s": 0.5})


@pytest.fixture
def harness(hasty: Settings, fleet_model: ModelServer) -> Iterator[AppHarness]:
    """A runner that only accepts."""
    runner = Runner.open(hasty)
    harness = AppHarness(runner, fleet_model, Path(hasty.agents_dir.split(":")[0]))
    yield harness
    runner.close()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the tool writes down what it did."""
    monkeypatch.setenv(FOLDER, str(tmp_path))
    return tmp_path


def test_a_run_waits_for_a_worker_that_has_its_tool_and_is_taken_up_beside_one_that_has_not(
    hasty: Settings, harness: AppHarness, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.agent("tools: [tests.journeys.skewed_tools:weigh]")
    harness.model.script([WEIGH, DONE])
    log = hasty.state / "skew.log"

    with Worker(hasty, log=log) as first:
        run_id = harness.run("How heavy is it?", detached=True).run_id
        until("the tool is called", lambda: weighed(folder) == 1)
        os.killpg(first.process.pid, signal.SIGKILL)
    monkeypatch.setenv(WITHOUT, "1")
    with Worker(hasty, log=log):
        until("the run waits", lambda: state(harness, run_id)["status"] == "waiting")
        waiting = state(harness, run_id)
        output = runs_why(hasty)
        (folder / "free").touch()
        monkeypatch.delenv(WITHOUT)
        with Worker(hasty, log=log):
            end = harness.runner.handle(run_id).result(60)

    assert (waiting["reason"], waiting["crashes"]) == ("code_version", 1)
    assert "weigh" in waiting["detail"]
    assert run_id in output
    assert "there is no 'weigh'" in " ".join(output.split())
    assert (end.status, end.output) == ("succeeded", "It weighs 2 kg.")
    assert weighed(folder) == 2, "once by the worker that was killed, once by the one that took it up"
    assert state(harness, run_id)["crashes"] == 1


def test_a_run_continues_elsewhere_with_the_definition_it_began_with(
    hasty: Settings, harness: AppHarness, folder: Path
) -> None:
    agent_id = harness.agent("tools: [tests.journeys.skewed_tools:weigh]", "edited")
    harness.model.script([WEIGH, DONE, DONE])
    file = hasty.agent_folders[0] / f"{agent_id}.yaml"
    log = hasty.state / "edited.log"
    request_count = len(harness.model.requests)

    with Worker(hasty, log=log) as first:
        began = harness.run("How heavy is it?", agent_id, detached=True)
        until("the tool is called", lambda: weighed(folder) == 1)
        os.killpg(first.process.pid, signal.SIGKILL)
    queued = harness.run("And how is it today?", agent_id, detached=True)
    file.write_text(file.read_text().replace("You are a test.", "You are another test."))
    (folder / "free").touch()
    with Worker(hasty, log=log):
        assert [began.result(60).status, queued.result(60).status] == ["succeeded", "succeeded"]
        harness.model.script([DONE])
        assert harness.run("And now?", agent_id, detached=True).result(60).status == "succeeded"

    prompts = [str(request.body["messages"][0]["content"]) for request in harness.model.requests[request_count:]]
    assert prompts == ["You are a test."] * 3 + ["You are another test."]


def test_an_older_worker_drops_a_newer_message_and_its_run_is_found_in_sql(
    hasty: Settings, harness: AppHarness
) -> None:
    harness.agent()
    harness.model.script([DONE])
    client = redis.Redis.from_url(str(hasty.redis_url))
    run = harness.run("Are you well?", detached=True)
    row = state(harness, run.run_id)
    queue = f"{Keys(hasty.deployment).prefix}{hasty.queue}"
    until("the message is on its way", lambda: client.llen(queue) == 1)
    client.delete(queue)
    newer = RunAgentMessage(run_id=run.run_id, agent_id="tester", thread_id=row["thread_id"]).to_wire() | {"v": 2}
    publish(hasty, newer)
    log = hasty.state / "newer.log"
    with Worker(hasty, log=log):
        assert run.result(60).status == "succeeded"
        until("the message was looked at", lambda: "not a message of version 1; it was dropped" in log.read_text())


# --- what several journeys do ---------------------------------------------------------------------


def until(what: str, is_so: Callable[[], bool], timeout_s: float = 60) -> None:
    ends_s = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < ends_s, f"not within {timeout_s:g} s: {what}"
        time.sleep(0.05)  # other processes; the database is the only sign


def weighed(folder: Path) -> int:
    file = folder / "weighed"
    return len(file.read_text().splitlines()) if file.exists() else 0


def state(harness: AppHarness, run_id: str) -> dict[str, Any]:
    with harness.runner.journal.database.read() as connection:
        return dict(connection.execute(select(runs).where(runs.c.id == run_id)).mappings().one())


def runs_why(settings: Settings) -> str:
    """Return what `./callboard runs --why` says."""
    command = [sys.executable, "-m", "cli", "runs", "--why"]
    env = environment(settings) | {"PYTHONPATH": str(ROOT), "COLUMNS": "300"}
    process = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


def publish(settings: Settings, wire: dict[str, Any]) -> None:
    """Send a message as a web process of another version would."""
    code = "import json, sys; from bus.celery_app import app;"
    code += " app.send_task('callboard.run_agent', (json.loads(sys.argv[1]),))"
    command = [sys.executable, "-c", code, json.dumps(wire)]
    subprocess.run(command, cwd=ROOT, env=environment(settings) | {"PYTHONPATH": str(ROOT)}, timeout=60, check=True)
