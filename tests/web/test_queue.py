"""Messages for a busy conversation over HTTP: by policy, and edited, moved and removed while they wait."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


def send(client: Any, text: str, **fields: Any) -> Any:
    body = {"agent": "assistant", "input": text, "thread_id": "talk", **fields}
    return client.post("/v1/runs", json=body)


def waiting(client: Any) -> list[str]:
    return [entry["content"] for entry in client.get("/v1/threads/talk/queue").json["queue"]]


def test_messages_wait_and_are_edited_moved_and_removed(client: Any) -> None:
    first, second, third = (send(client, text).json["run_id"] for text in ("First", "Second", "Third"))

    edited = client.patch(f"/v1/threads/talk/queue/{second}", json={"content": "Second, better"})
    moved = client.patch(f"/v1/threads/talk/queue/{third}", json={"place": "first"})
    removed = client.delete(f"/v1/threads/talk/queue/{first}")

    assert (edited.status_code, moved.status_code, removed.status_code) == (200, 200, 204)
    assert waiting(client) == ["Third", "Second, better"]
    assert client.get(f"/v1/runs/{first}").json["status"] == "cancelled"


def test_a_message_gets_both_a_text_and_a_place(client: Any) -> None:
    *_, third = (send(client, text).json["run_id"] for text in ("First", "Second", "Third"))

    changed = client.patch(f"/v1/threads/talk/queue/{third}", json={"content": "Third, better", "place": "first"})

    assert (changed.status_code, changed.json["run_id"]) == (200, third)
    assert waiting(client) == ["Third, better", "First", "Second"]
    events = client.get(f"/v1/runs/{third}/events", headers={"Accept": "application/json"}).json["events"]
    assert [event.get("summary") for event in events if event["type"] == "history"] == ["Third, better"]


def test_what_waits_is_listed_in_pages(client: Any) -> None:
    for number in range(5):
        send(client, f"text {number}")
    contents, sizes, following = list[str](), list[int](), "0"
    while following is not None:
        page = client.get(f"/v1/threads/talk/queue?limit=2&after={following}").json
        contents += [entry["content"] for entry in page["queue"]]
        sizes.append(len(page["queue"]))
        following = page.get("next")

    assert contents == [f"text {number}" for number in range(5)]
    assert sizes == [2, 2, 1]
    assert client.get("/v1/threads/talk/queue?limit=501").status_code == 400


def test_a_message_that_another_run_takes_is_answered_with_that_run(client: Any) -> None:
    first = send(client, "First").json["run_id"]

    merged = send(client, "Second", if_busy="merge").json
    steered = send(client, "Third", if_busy="steer").json

    assert (merged["run_id"], merged["delivered"]) == (first, "merged")
    assert (steered["run_id"], steered["delivered"], steered["control_id"][:4]) == (first, "steered", "ctl_")
    assert waiting(client) == ["First\n\nSecond", "Third"]


def test_a_busy_thread_rejects_with_what_is_under_way(client: Any) -> None:
    first = send(client, "First").json["run_id"]

    refused = send(client, "Second", if_busy="reject")

    assert (refused.status_code, refused.json["code"]) == (409, "thread_busy")
    assert first in refused.json["detail"]


@pytest.mark.parametrize(
    ("policy", "texts"),
    [("merge", ["First\n\nSecond"]), ("steer", ["First", "Second"]), ("enqueue", ["First", "Second"])],
)
def test_a_repeated_request_gets_the_same_answer(client: Any, settings: Any, policy: str, texts: list[str]) -> None:
    send(client, "First")
    body = {"agent": "assistant", "input": "Second", "thread_id": "talk", "if_busy": policy}
    key = {"Idempotency-Key": "k"}

    first, second = (client.post("/v1/runs", json=body, headers=key) for _ in range(2))
    (Path(settings.agents_dir) / "assistant.yaml").unlink()
    third = client.post("/v1/runs", json=body, headers=key)

    assert first.status_code == 202
    assert (second.status_code, second.json) == (202, first.json)
    assert (third.status_code, third.json) == (202, first.json)
    assert waiting(client) == texts


def test_a_repeated_steer_gets_its_own_control_id(client: Any) -> None:
    path = f"/v1/runs/{send(client, 'First').json['run_id']}/steer"

    first, _, again = (
        client.post(path, json={"content": text}, headers={"Idempotency-Key": text}).json for text in ("a", "b", "a")
    )

    assert again == first


def test_a_steer_is_answered_with_its_number_in_the_order_of_arrival(client: Any) -> None:
    run_id = send(client, "First").json["run_id"]

    steers = [client.post(f"/v1/runs/{run_id}/steer", json={"content": text}).json for text in ("a", "b")]
    send(client, "Last")
    messages = client.get("/v1/threads/talk/messages").json["messages"]
    stopped = client.post(f"/v1/runs/{run_id}/cancel", json={}).json

    assert [steer["number"] for steer in steers] == [2, 3]
    assert {message["content"]: message["number"] for message in messages} == {"First": 1, "Last": 4}
    assert "number" not in stopped


@pytest.mark.parametrize("policy", ["later", "", 3])
def test_an_unknown_policy_is_refused_with_those_there_are(client: Any, policy: Any) -> None:
    refused = send(client, "First", if_busy=policy)

    assert refused.status_code == 400
    assert "if_busy" in refused.json["detail"]


@pytest.mark.parametrize(("body", "status"), [({}, 400), ({"content": "  "}, 400), ({"place": "last"}, 400)])
def test_a_change_that_says_nothing_is_refused(client: Any, body: dict[str, Any], status: int) -> None:
    run_id = send(client, "First").json["run_id"]

    assert client.patch(f"/v1/threads/talk/queue/{run_id}", json=body).status_code == status


def test_steering_a_run_that_ended_names_what_to_do(client: Any) -> None:
    run_id = send(client, "First").json["run_id"]
    client.post(f"/v1/runs/{run_id}/cancel", json={})

    refused = client.post(f"/v1/runs/{run_id}/steer", json={"content": "Hm."})

    assert (refused.status_code, refused.json["code"]) == (409, "control_refused")
    assert "send a message to its thread" in refused.json["detail"]


def test_limits_of_an_open_run_are_set_over_http(client: Any) -> None:
    run_id = send(client, "First").json["run_id"]

    done = client.post(f"/v1/runs/{run_id}/set", json={"max_iterations": 2})
    refused = client.post(f"/v1/runs/{run_id}/set", json={"max_iterations": 9})
    unknown = client.post(f"/v1/runs/{run_id}/set", json={"max_iterations": 0})
    events = client.get(f"/v1/runs/{run_id}/events", headers={"Accept": "application/json"}).json["events"]

    assert (done.status_code, refused.status_code, unknown.status_code) == (200, 409, 400)
    assert (refused.json["code"], "8 rounds" in refused.json["detail"]) == ("control_refused", True)
    assert [(e["verb"], e["content"]) for e in events if e["type"] == "control"] == [("set", "max_iterations 2")]


def test_priorities_are_given_shown_and_set_over_http(client: Any) -> None:
    run_id = send(client, "First", priority="low").json["run_id"]
    first = client.get(f"/v1/runs/{run_id}").json["priority"]

    done = client.post(f"/v1/runs/{run_id}/set", json={"priority": "high"})
    refused = [
        send(client, "Second", priority="urgent"),
        client.post(f"/v1/runs/{run_id}/set", json={"priority": "urgent"}),
    ]
    nothing = [client.post(f"/v1/runs/{run_id}/set", json=body) for body in ({}, {"expected_status": "queued"})]
    (listed,) = client.get("/v1/runs").json["runs"]

    assert (first, done.status_code, listed["priority"]) == ("low", 200, "high")
    assert [answer.status_code for answer in refused] == [400] * 2
    assert all("low" in answer.json["detail"] and "high" in answer.json["detail"] for answer in refused)
    assert [(answer.status_code, answer.json.get("control_id")) for answer in nothing] == [(200, None)] * 2
    client.post(f"/v1/runs/{run_id}/cancel")
    ended = client.post(f"/v1/runs/{run_id}/set", json={"priority": "low"})
    assert (ended.status_code, ended.json["code"]) == (409, "control_refused")


def test_a_control_may_be_for_one_status_of_the_run(client: Any) -> None:
    run_id = send(client, "First").json["run_id"]
    bodies = {"steer": {"content": "Hm."}, "set": {"priority": "high"}}

    answers = [
        client.post(f"/v1/runs/{run_id}/{verb}", json=bodies.get(verb, {}) | {"expected_status": "running"})
        for verb in ("steer", "set", "pause", "resume", "cancel")
    ]
    unknown = client.post(f"/v1/runs/{run_id}/pause", json={"expected_status": "asleep"})
    done = client.post(f"/v1/runs/{run_id}/pause", json={"expected_status": "queued"})

    assert [(answer.status_code, answer.json["code"]) for answer in answers] == [(409, "control_refused")] * 5
    assert all("it is queued, and you expected running" in answer.json["detail"] for answer in answers)
    assert (unknown.status_code, "waiting" in unknown.json["detail"]) == (400, True)
    assert (done.status_code, done.json["status"]) == (200, "waiting")
