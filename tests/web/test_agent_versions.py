"""Versions of agents over HTTP: who lists them, who promotes them, and how a waiting run is moved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agents.runner import Runner
from config.identity.principal import Principal, Role
from config.settings import Settings
from tests.bus.questions import asks, question_before
from tests.credentials import key_of
from tests.web.conftest import AGENT, process_of
from web.app import create_app

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


def test_a_version_says_what_its_file_said(client: Any, file: Path) -> None:
    contents = [client.get(f"/v1/agents/assistant/versions/{number}").json["content"] for number in (1, 2)]

    assert [content["system_prompt"] for content in contents] == ["You answer.", "You answer briefly."]
    for number in ("9", "0", "latest", "-1", "99999999999999999999"):
        assert client.get(f"/v1/agents/assistant/versions/{number}").json["code"] == "version_unknown"


def test_the_list_says_who_promoted_and_has_the_version_of_an_agent_without_runs(
    client: Any, settings: Settings
) -> None:
    (Path(settings.agents_dir) / "clerk.yaml").write_text(AGENT)

    (row,) = client.get("/v1/agents/clerk/versions").json["versions"]
    client.post("/v1/agents/clerk/promote", json={"version": 1})
    (stable,) = client.get("/v1/agents/clerk/versions").json["versions"]

    assert (row["version"], row["promoted"]) == (1, {})
    assert stable["promoted"]["stable"]["by"] == settings.local_principal.id
    assert stable["promoted"]["stable"]["at"] >= row["created_at"]


def test_a_run_gets_the_version_that_its_start_names(client: Any, file: Path, runner: Runner) -> None:
    digests = {row["version"]: row["digest"] for row in client.get("/v1/agents/assistant/versions").json["versions"]}

    for number in (1, 2):
        run_id = client.post("/v1/runs", json={**RUN, "version": number}).json["run_id"]

        row = runner.journal.readers.runs.row(runner.principal, run_id)
        assert row.definition_digest == digests[number]
    assert client.post("/v1/runs", json={**RUN, "version": 9}).json["code"] == "version_unknown"
    workflow = client.post("/v1/runs", json={"workflow": "books", "input": {}, "version": 1})
    assert workflow.json["detail"] == "'version' is of agents; leave it out where you start a workflow."


def test_prompts_and_versions_are_for_who_may_promote(runner: Runner, settings: Settings, file: Path) -> None:
    app = create_app(settings.model_copy(update={"auth": "required"}), runner)
    guarded = app.test_client()
    for role, status in ((Role.OPERATOR, 200), (Role.VIEWER, 403)):
        principal = Principal(id=f"a-{role}", roles=frozenset({role}))
        headers = {"Authorization": f"Bearer {key_of(settings, principal)}"}

        version = guarded.get("/v1/agents/assistant/versions/1", headers=headers)
        start = guarded.post("/v1/runs", json={**RUN, "version": 1}, headers=headers)

        assert version.status_code == status
        assert start.status_code == (202 if status == 200 else 403)
        assert "You answer" not in version.text or status == 200
    process_of(app).close()
