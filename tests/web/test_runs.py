"""Starting, listing and stopping runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from bus.journal.owner import Commit
from bus.payloads import EndPayload
from config.settings import Settings
from tests.web.conftest import RunOwner, accept, process_of
from web.process import MAX_LARGE, MAX_WAITING


def start(client, headers: dict[str, str] | None = None, **fields: object):
    return client.post("/v1/runs", json={"agent": "assistant", "input": "Hello", **fields}, headers=headers or {})


def test_a_start_answers_where_to_look(client) -> None:
    answer = start(client)

    run_id = answer.json["run_id"]
    assert answer.status_code == 202
    assert answer.json["status"] == "queued"
    assert answer.json["events_url"] == f"/v1/runs/{run_id}/events"
    assert answer.headers["Location"] == f"/v1/runs/{run_id}"
    assert client.get(answer.headers["Location"]).json["title"] == "Hello"


def test_a_client_names_its_thread(client) -> None:
    first, second = start(client, thread_id="mine:1"), start(client, thread_id="mine:1")

    assert first.json["thread_id"] == second.json["thread_id"] == "mine:1"
    assert [run["run_id"] for run in client.get("/v1/threads/mine:1").json["runs"]] == [
        first.json["run_id"],
        second.json["run_id"],
    ]


def test_an_unknown_agent_is_said_and_no_other_named(client) -> None:
    answer = start(client, agent="asistant")

    assert (answer.status_code, answer.json["code"]) == (404, "agent_unknown")
    assert "'assistant'" not in answer.json["detail"]


def test_an_input_that_a_guardrail_blocks_is_refused_with_the_reasons(client, settings: Settings) -> None:
    agent = Path(settings.agents_dir) / "assistant.yaml"
    agent.write_text(f"{agent.read_text()}\nguardrails: {{input: {{pii: block}}}}\n")

    answer = start(client, input="Charge 4111 1111 1111 1111 for jane@example.org")

    assert (answer.status_code, answer.json["code"]) == (400, "input_blocked")
    assert answer.json["reasons"] == ["blocked: email", "blocked: card"]
    assert "4111 1111" not in answer.text
    assert client.get("/v1/runs").json["runs"] == []


def test_a_secret_in_an_input_is_replaced_in_the_run_s_title(client) -> None:
    run_id = start(client, input="Use sk-proj-Ab12Cd34Ef56Gh78Ij90 please").json["run_id"]

    assert client.get(f"/v1/runs/{run_id}").json["title"] == "Use [redacted] please"


def test_the_same_key_and_body_is_the_same_run(client) -> None:
    key = {"Idempotency-Key": "abc"}

    first, second = start(client, key, metadata={"a": 1, "b": 2}), start(client, key, metadata={"b": 2, "a": 1})

    assert second.status_code == 202
    assert second.json == first.json
    assert len(client.get("/v1/runs").json["runs"]) == 1


def test_the_same_key_is_the_same_run_also_when_its_agent_has_gone(client, settings: Settings) -> None:
    key = {"Idempotency-Key": "abc"}
    first = start(client, key)
    Path(settings.agents_dir, "assistant.yaml").unlink()

    second, third = start(client, key), start(client, {"Idempotency-Key": "another"})

    assert (second.status_code, second.json) == (202, first.json)
    assert (third.status_code, third.json["code"]) == (404, "agent_unknown")


def test_the_same_key_with_another_body_is_refused(client) -> None:
    key = {"Idempotency-Key": "abc"}
    start(client, key)

    answer = start(client, key, metadata={"a": 1})

    assert (answer.status_code, answer.json["code"]) == (409, "idempotency_conflict")


@pytest.mark.parametrize("key", ["", "a" * 256, "ä", "a\tb"])
def test_a_key_is_short_and_printable(door, key: str) -> None:
    answer = start(door, {"Idempotency-Key": key})

    assert (answer.status_code, answer.json["code"]) == (400, "bad_request")


@pytest.mark.parametrize(
    "secret", ["cbk_0123456789abcdef_0123456789abcdef", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln"]
)
def test_a_key_that_is_a_credential_is_refused_and_not_repeated(door, secret: str) -> None:
    answer = start(door, {"Idempotency-Key": f"Bearer {secret}"})

    assert (answer.status_code, answer.json["code"]) == (400, "bad_request")
    assert "revoke that credential" in answer.json["detail"]
    assert secret not in answer.text


def test_a_caller_that_waits_gets_the_end(client, runner, journal) -> None:
    def work() -> None:
        while not (queued := client.application.test_client().get("/v1/runs?status=queued").json["runs"]):
            pass
        RunOwner(journal, queued[0]["run_id"]).finish("42")

    worker = threading.Thread(target=work)
    worker.start()
    answer = start(client, detached=False, wait_s=20)
    worker.join()

    assert answer.status_code == 200
    assert (answer.json["type"], answer.json["status"], answer.json["output"]) == ("end", "succeeded", "42")


def test_a_caller_that_waited_in_vain_gets_the_run(client) -> None:
    answer = start(client, detached=False, wait_s=0.05)

    assert answer.status_code == 202
    assert answer.json["status"] == "queued"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/runs", {"agent": "assistant", "input": "Hi", "detached": False}),
        ("/v1/runs", {"agent": "assistant", "input": "Hi"}),
        ("/process", {"message": "Hi"}),
    ],
)
def test_a_start_that_cannot_wait_answers_with_the_run(client, path: str, body: dict) -> None:
    process = process_of(client.application)
    for _ in range(MAX_WAITING):
        assert process._waiting.acquire(blocking=False)

    answer = client.post(path, json=body, headers={} if path == "/process" else {"Prefer": "wait=5"})

    assert (answer.status_code, answer.json["status"]) == (202, "queued")
    assert "Preference-Applied" not in answer.headers
    assert client.get(f"/v1/runs/{answer.json['run_id']}").status_code == 200
    refused = client.get(f"/v1/runs/{answer.json['run_id']}", headers={"Prefer": "wait=1"})
    assert (refused.status_code, refused.json["code"]) == (503, "overloaded")


def test_runs_are_listed_in_pages(client, runner) -> None:
    run_ids = [accept(runner, f"{number}") for number in range(7)]
    seen, query = [], "/v1/runs?limit=3"

    while True:
        page = client.get(query).json
        seen += [run["run_id"] for run in page["runs"]]
        if "next" not in page:
            break
        query = f"/v1/runs?limit=3&before={page['next']}"

    assert len(seen) == 7
    assert sorted(seen) == sorted(run_ids)


def test_runs_are_filtered(client, runner, journal) -> None:
    accept(runner, thread_id="one")
    other = accept(runner, thread_id="two")
    RunOwner(journal, other).finish()

    assert [run["run_id"] for run in client.get("/v1/runs?status=succeeded").json["runs"]] == [other]
    assert [run["run_id"] for run in client.get("/v1/runs?thread_id=two").json["runs"]] == [other]
    assert len(client.get("/v1/runs?status=open").json["runs"]) == 1
    assert client.get("/v1/runs?agent=unknown").json == {"runs": []}
    for query in ("q=hello", f"q={other[-8:]}", "queue=runs", "kind=agent", "model=demo/assistant", "since=1h"):
        assert other in [run["run_id"] for run in client.get(f"/v1/runs?{query}").json["runs"]], query
    for query in ("q=nothing", "queue=gpu", "kind=tool", "model=x", "until=1h", "since=2099-01-01T00:00:00Z", "code=x"):
        assert client.get(f"/v1/runs?{query}").json == {"runs": []}, query
    assert client.get("/v1/runs?q=&since=&kind=&code=&queue=").json == client.get("/v1/runs").json


def test_a_failure_is_counted_with_its_cause(client, runner, journal) -> None:
    open_id, failed_id = accept(runner), accept(runner, thread_id="two")
    change = Commit(events=(EndPayload(status="failed", reason="tool_failed"),), error_code="tool_failed")
    journal.loop.run(RunOwner(journal, failed_id).writer.commit(change))

    by_code = client.get("/v1/runs/counts?by=code").json
    by_status = client.get("/v1/runs/counts?by=status&since=1h").json

    assert by_code["groups"][0].items() >= {"value": "tool_failed", "count": 1, "latest_run_id": failed_id}.items()
    assert by_code["groups"][0]["agents"] == [{"agent": "assistant", "count": 1}]
    assert {group["value"]: group["count"] for group in by_status["groups"]} == {"queued": 1, "failed": 1}
    assert client.get("/v1/runs/counts?by=queue").json["groups"] == [{"value": "runs", "count": 2}]
    assert [run["run_id"] for run in client.get("/v1/runs?code=any&since=24h").json["runs"]] == [failed_id]
    assert client.get(f"/v1/runs/counts?by=agent&q={open_id}").json["total"] == 1


@pytest.mark.parametrize("query", ["", "by=tenant", "by=status&limit=3", "by=status&since=x", "by=status&status=done"])
def test_a_wrong_count_is_refused(door, query: str) -> None:
    answer = door.get(f"/v1/runs/counts?{query}")

    assert (answer.status_code, answer.json["code"]) == (400, "bad_request")


@pytest.mark.parametrize(
    "query",
    [
        *("limit=0", "limit=201", "limit=x", "limit=-1", "status=done", "before=x", "before=W10", "stauts=open"),
        *("since=1w", "since=yesterday", "until=2026-02-30T00:00:00Z", "since=-1h", "sort=random", "kind=robot"),
        "sort=oldest&before=WzEsInJ1biIsImRlYXJlc3QiXQ",  # a place in another order
        "before=WzEuNSwicnVuIl0",  # a part of a millisecond
        "code=x&code=y",
    ],
)
def test_a_wrong_filter_is_refused(door, query: str) -> None:
    answer = door.get(f"/v1/runs?{query}")

    assert (answer.status_code, answer.json["code"]) == (400, "bad_request")


@pytest.mark.parametrize("run_id", ["none", "run_01m7wyc882adz9tga1jxhzbj7w", "a" * 500, "..", "%2e%2e%2f"])
def test_an_unknown_run_is_a_problem(door, run_id: str) -> None:
    for answer in (door.get(f"/v1/runs/{run_id}/events"), door.post(f"/v1/runs/{run_id}/cancel", json={})):
        assert answer.status_code == 404
        assert answer.json["code"] in ("run_unknown", "not_found")


def test_a_queued_run_is_stopped_at_once_and_stopping_twice_is_harmless(client, runner) -> None:
    run_id = accept(runner)

    first, second = (client.post(f"/v1/runs/{run_id}/cancel", json={}) for _ in range(2))

    assert (first.status_code, first.json["status"]) == (200, "cancelled")
    assert (second.status_code, second.json["status"]) == (200, "cancelled")


def test_a_running_run_is_stopped_by_its_owner(client, runner, journal) -> None:
    run_id = accept(runner)
    RunOwner(journal, run_id)

    answer = client.post(f"/v1/runs/{run_id}/cancel", json={})

    assert (answer.status_code, answer.json["status"]) == (202, "running")


@pytest.fixture
def crowded(app, monkeypatch: pytest.MonkeyPatch) -> Iterator[FlaskClient]:
    """A client of a process that is at work on as many large bodies and pages as it takes."""
    monkeypatch.setattr("web.process.LARGE_WAIT_S", 0)
    with ExitStack() as stack:
        for _ in range(MAX_LARGE):
            stack.enter_context(process_of(app).large_work())
        yield app.test_client()


@pytest.mark.parametrize("options", [{}, {"json": {}}], ids=["no body", "an empty object"])
def test_a_run_is_stopped_and_looked_at_beside_large_bodies(crowded, runner, options: dict[str, Any]) -> None:
    run_id = accept(runner)

    stopped = crowded.post(f"/v1/runs/{run_id}/cancel", **options)
    seen = crowded.get(f"/v1/runs/{run_id}?why=1")

    assert (stopped.status_code, stopped.json["status"]) == (200, "cancelled")
    assert (seen.status_code, seen.json["status"]) == (200, "cancelled")


def test_a_chunked_body_waits_for_a_place(crowded) -> None:
    answer = crowded.post("/v1/runs", data=b"{}", headers={"Transfer-Encoding": "chunked"})

    assert (answer.status_code, answer.json["code"]) == (503, "overloaded")


@pytest.mark.parametrize(("chars", "status"), [(16_000, 200), (17_000, 503)])
def test_a_run_with_a_long_output_waits_for_a_place(crowded, runner, journal, chars: int, status: int) -> None:
    run_id = accept(runner)
    RunOwner(journal, run_id).finish("x" * chars)

    assert crowded.get(f"/v1/runs/{run_id}").status_code == status


# --- forks


def test_a_thread_is_forked_at_a_message(client, runner, journal) -> None:
    RunOwner(journal, accept(runner, "Hi", thread_id="talk")).finish("Hello.")

    forked = client.post("/v1/threads/talk/fork", json={"message": 2, "thread_id": "branch"})
    unknown = client.post("/v1/threads/talk/fork", json={"message": 9})

    assert (forked.status_code, forked.headers["Location"]) == (201, "/v1/threads/branch")
    assert forked.json == {"thread_id": "branch", "forked_from": "talk", "at": 2, "messages": 2}
    thread = client.get("/v1/threads/branch").json
    assert (thread["forked_from"], thread["forked_at"], thread["runs"]) == ("talk", 2, [])
    page = client.get("/v1/threads/branch/messages").json["messages"]
    assert [message["content"] for message in page] == ["Hi", "Hello."]
    assert (unknown.status_code, unknown.json["code"]) == (404, "message_unknown")


# --- repeating


def test_a_run_that_failed_is_retried_and_one_that_succeeded_repeated_from_a_step(client, runner, journal) -> None:
    failed, done = accept(runner, "Hi", thread_id="talk"), accept(runner, "Hi")
    for run_id, status in ((failed, "failed"), (done, "succeeded")):
        RunOwner(journal, run_id).finish("Hello.", status=status)

    retry = client.post(f"/v1/runs/{failed}/retry", json={}, headers={"Idempotency-Key": "r"})
    again = client.post(f"/v1/runs/{failed}/retry", json={}, headers={"Idempotency-Key": "r"})
    refused = client.post(f"/v1/runs/{done}/retry", json={})
    no_step = client.post(f"/v1/runs/{done}/rerun", json={"from_step": 9, "mode": "live"})

    assert (retry.status_code, retry.json["thread_id"]) == (202, "talk")
    assert again.json["run_id"] == retry.json["run_id"]
    run = client.get(f"/v1/runs/{retry.json['run_id']}").json
    assert (run["retry_of"], run["mode"], run["title"]) == (failed, "recorded", "Hi")
    assert (refused.status_code, refused.json["code"]) == (409, "run_not_repeatable")
    assert (no_step.status_code, no_step.json["code"]) == (404, "step_unknown")
