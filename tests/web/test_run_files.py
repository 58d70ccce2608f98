"""A run as the lines of the logger's file, and as the file that a test replays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from agents.testing import AgentKit, Call, Turn
from tests.web.conftest import door_of


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@pytest.fixture
def kit() -> Iterator[AgentKit]:
    with AgentKit(tools=[add]) as new_kit:
        new_kit.model.script(Turn(calls=[Call(name="add", arguments={"a": 17, "b": 23})]), Turn(text="It is\n40."))
        yield new_kit


@pytest.fixture
def client(kit: AgentKit) -> Iterator[FlaskClient]:
    with door_of(kit.runner) as opened_door:
        yield opened_door


def test_the_log_of_a_run_is_what_the_logger_writes(kit: AgentKit, client: FlaskClient) -> None:
    run = kit.run("What is 17 + 23?")
    played = kit.played(run)

    response = client.get(f"/v1/runs/{run.run_id}/log")

    lines = response.text.splitlines()
    assert response.content_type == "text/plain; charset=utf-8"
    types = [event.type for event in played.events if event.type not in ("response", "reasoning")]
    assert [line.split()[4] for line in lines] == types
    assert all(line.split()[1] == run.run_id for line in lines)
    assert "It is" in lines[-2], "a text of two lines is one line of the log"


def test_the_recording_of_a_run_is_replayed_by_a_test(kit: AgentKit, client: FlaskClient, tmp_path: Path) -> None:
    run = kit.run("What is 17 + 23?")
    kit.played(run)

    response = client.get(f"/v1/runs/{run.run_id}/recording")
    (tmp_path / "run.json").write_bytes(response.data)

    assert response.headers["Content-Disposition"] == f'attachment; filename="{run.run_id}.json"'
    assert kit.replay(tmp_path / "run.json").output == "It is\n40."


def test_a_run_that_is_not_there_has_no_files(kit: AgentKit, client: FlaskClient) -> None:
    answers = [client.get(f"/v1/runs/run_00000000000000000000000000/{name}") for name in ("log", "recording")]

    assert [(response.status_code, response.get_json()["code"]) for response in answers] == [(404, "run_unknown")] * 2


def test_a_run_names_those_that_repeat_it(kit: AgentKit, client: FlaskClient) -> None:
    run = kit.run("What is 17 + 23?")
    kit.played(run)
    kit.model.script(Turn(text="40"))
    repeat_id = client.post(f"/v1/runs/{run.run_id}/rerun", json={"from_step": 1}).get_json()["run_id"]

    assert client.get(f"/v1/runs/{run.run_id}").get_json()["repeated_by"] == [repeat_id]
    assert client.get(f"/v1/runs/{repeat_id}").get_json()["rerun_of"] == run.run_id
