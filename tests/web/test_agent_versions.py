"""Versions of agents over HTTP: who lists them, who promotes them, and how a waiting run is moved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agents.runner import Runner
from config.settings import Settings
from tests.bus.questions import asks, question_before
from tests.web.conftest import AGENT

RUN = {"agent": "assistant", "input": "Hello"}


@pytest.fixture
def file(settings: Settings, runner: Runner) -> Path:
    """The agent's file, whose first two contents are versions."""
    path = Path(settings.agents_dir) / "assistant.yaml"
    runner.registry.register()
    path.write_text(AGENT.replace("You answer.", "You answer briefly."))
    runner.registry.register()
    return path


def test_versions_are_listed_promoted_and_taken_back(client: Any, file: Path) -> None:
    listed = client.get("/v1/agents/assistant/versions").json["versions"]
    assert [(row["version"], row["is_in_file"], row["aliases"]) for row in listed] == [(2, True, {}), (1, False, {})]

    promoted = client.post("/v1/agents/assistant/promote", json={"version": 1})
    assert promoted.json == {"agent": "assistant", "aliases": {"stable": {"version": 1, "share": 100}}}
    assert client.get("/v1/agents/assistant").json["version"] == 1
    canary = client.post("/v1/agents/assistant/promote", json={"version": 2, "alias": "canary", "share": 20})
    assert canary.json["aliases"]["canary"] == {"version": 2, "share": 20}
    assert client.post("/v1/agents/assistant/rollback").json["aliases"].keys() == {"stable"}
    assert client.post("/v1/agents/assistant/promote", json={"version": "latest"}).json["aliases"] == {}
    assert "version" not in client.get("/v1/agents/assistant").json


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"version": 9}, 404, "version_unknown"),
        ({"version": 2, "alias": "canary"}, 409, "alias_refused"),
        ({"version": 1, "alias": "newest"}, 400, "bad_request"),
        ({"version": 1, "share": 100}, 400, "bad_request"),
        ({}, 400, "bad_request"),
    ],
)
def test_an_alias_to_nothing_is_refused(client: Any, file: Path, body: dict, status: int, code: str) -> None:
    answer = client.post("/v1/agents/assistant/promote", json=body)

    assert (answer.status_code, answer.json["code"]) == (status, code)


@pytest.mark.parametrize("version", [0, -3, "newest", "1", [1], {"a": 1}, None, 1.5, True])
def test_what_is_no_version_is_refused_with_the_forms_that_are(client: Any, file: Path, version: object) -> None:
    answer = client.post("/v1/agents/assistant/promote", json={"version": version})

    assert answer.status_code == 400
    assert answer.json["detail"] == "'version' has to be a whole number from 1 to 999,999,999, or latest."


def test_a_broken_file_serves_its_last_version_and_the_list_says_so(client: Any, file: Path) -> None:
    file.write_text("name: [")

    listed = client.get("/v1/agents").json

    (agent,) = listed["agents"]
    assert (agent["version"], agent["problem"]) == (
        2,
        "Its file cannot be used, so version 2 serves; `./callboard agents` says what is wrong.",
    )
    assert [(problem["id"], problem["code"]) for problem in listed["problems"]] == [("assistant", "definition_invalid")]
    assert client.post("/v1/runs", json=RUN).status_code == 202


def test_a_waiting_run_moves_to_the_version_that_was_shown(client: Any, file: Path, runner: Runner) -> None:
    run_id = client.post("/v1/runs", json=RUN).json["run_id"]
    assert client.get(f"/v1/runs/{run_id}/upgrade").json["code"] == "upgrade_refused"
    asks(runner.journal.database, run_id, question_before())
    file.write_text(AGENT)

    offer = client.get(f"/v1/runs/{run_id}/upgrade").json
    assert (offer["agent"], offer["changed"]) == ("assistant", ["system_prompt"])
    other = client.post(f"/v1/runs/{run_id}/upgrade", json={"digest": offer["before"]})
    assert (other.status_code, other.json["code"]) == (409, "upgrade_refused")
    moved = client.post(f"/v1/runs/{run_id}/upgrade", json={"digest": offer["definition"]})

    assert (moved.status_code, moved.json["status"]) == (200, "queued")
    assert client.get(f"/v1/runs/{run_id}").json["reason"] == "upgraded"
    assert client.get("/v1/approvals").json["approvals"] == []
