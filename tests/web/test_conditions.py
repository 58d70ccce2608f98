"""Entity tags, waiting by preference, and past states of a thread."""

from __future__ import annotations

import threading

import pytest

from config.clock import epoch_ms
from tests.web.conftest import RunOwner, accept


@pytest.mark.parametrize("path", ["/v1/runs/{run}", "/v1/threads/mine", "/v1/threads/mine/messages"])
def test_what_a_client_has_is_not_sent_again_until_it_changes(client, runner, journal, path: str) -> None:
    run_id = accept(runner, thread_id="mine")
    address = path.format(run=run_id)
    tag = client.get(address).headers["ETag"]

    same = client.get(address, headers={"If-None-Match": f'"other", W/{tag}'})
    any_ = client.get(address, headers={"If-None-Match": "*"})
    RunOwner(journal, run_id).finish("42")
    changed = client.get(address, headers={"If-None-Match": tag})

    assert (same.status_code, same.data, same.headers["ETag"]) == (304, b"", tag)
    assert any_.status_code == 304
    assert (changed.status_code, changed.headers["ETag"] == tag) == (200, False)
    assert changed.headers["Cache-Control"] == "no-store", "conversations stay out of caches; clients keep the tag"


def test_a_tag_of_what_is_not_there_tells_nothing(door) -> None:
    answer = door.get("/v1/runs/run_none", headers={"If-None-Match": "*"})

    assert (answer.status_code, answer.json["code"]) == (404, "run_unknown")
    assert "ETag" not in answer.headers


@pytest.mark.parametrize("method", ["post", "get"])
def test_a_call_waits_as_preferred(client, runner, journal, method: str) -> None:
    def work() -> None:
        other = client.application.test_client()
        while not (queued := other.get("/v1/runs?status=queued").json["runs"]):
            pass
        RunOwner(journal, queued[0]["run_id"]).finish("42")

    worker = threading.Thread(target=work)
    prefer = {"Prefer": 'respond-async;x, Wait="20"'}
    if method == "post":
        worker.start()
        answer = client.post("/v1/runs", json={"agent": "assistant", "input": "?"}, headers=prefer)
    else:
        run_id = accept(runner)
        worker.start()
        answer = client.get(f"/v1/runs/{run_id}", headers=prefer)
    worker.join()

    assert (answer.status_code, answer.json["status"], answer.json["output"]) == (200, "succeeded", "42")
    assert answer.headers["Preference-Applied"] == "wait=20"


def test_an_answer_that_is_there_at_once_is_within_the_preferred_wait(client, runner, journal) -> None:
    request = {
        "json": {"agent": "assistant", "input": "?"},
        "headers": {"Prefer": "wait=20", "Idempotency-Key": "once"},
    }
    run_id = client.post("/v1/runs", **request | {"headers": {"Idempotency-Key": "once"}}).json["run_id"]
    RunOwner(journal, run_id).finish("42")

    answers = [client.post("/v1/runs", **request), client.get(f"/v1/runs/{run_id}", headers={"Prefer": "wait=20"})]

    assert [answer.status_code for answer in answers] == [200, 200]
    assert [answer.headers["Preference-Applied"] for answer in answers] == ["wait=20"] * 2


@pytest.mark.parametrize("prefer", ["wait", "wait=", "wait=soon", "wait=-1", "wait=٣", "respond-async", "wait=0", ","])
def test_a_preference_that_says_nothing_is_no_error(client, prefer: str) -> None:
    body = {"agent": "assistant", "input": "?"}

    answer = client.post("/v1/runs", json=body, headers={"Prefer": prefer.encode().decode("latin-1")})

    assert answer.status_code == 202
    assert "Preference-Applied" not in answer.headers


def test_a_page_of_events_waits_as_preferred(client, runner, journal) -> None:
    run_id = accept(runner)
    owner = RunOwner(journal, run_id)
    seen = client.get(f"/v1/runs/{run_id}/events", headers={"Accept": "application/json"}).json["cursor"]
    writing = threading.Thread(target=lambda: owner.say("x"))
    headers = {"Accept": "application/json", "Prefer": "wait=500"}

    writing.start()
    answer = client.get(f"/v1/runs/{run_id}/events?after={seen}", headers=headers)
    writing.join()

    assert [event["type"] for event in answer.json["events"]] == ["response"]
    assert answer.headers["Preference-Applied"] == "wait=60"
    owner.finish()


def test_a_thread_is_shown_as_it_was(client, runner, journal) -> None:
    RunOwner(journal, accept(runner, "one", thread_id="mine")).finish("1")
    before = epoch_ms()
    second = RunOwner(journal, accept(runner, "two", thread_id="mine"))
    accept(runner, "three", thread_id="mine")
    second.finish("2")
    messages = client.get("/v1/threads/mine/messages").json["messages"]
    numbers = {message["content"]: message["number"] for message in messages}

    def contents(at: str) -> list[str]:
        entries = client.get("/v1/threads/mine/messages", query_string={"at": at}).json["messages"]
        return [message["content"] for message in entries]

    assert [message["content"] for message in messages] == ["one", "1", "two", "2", "three"]
    assert contents(str(numbers["two"])) == ["one", "1", "two"]
    assert contents(str(numbers["three"])) == ["one", "1", "two", "three"], "the answer to two came later"
    assert contents("0") == []
    assert contents("") == contents("999999999") == contents("2999-01-01T00:00:00+01:00") == list(numbers)
    assert contents("2020-01-01t00:00:00.5z") == []
    assert before < epoch_ms() + 1


@pytest.mark.parametrize("at", ["x", "-1", "1.2", "2026-11-22", "2026-11-22T21:00:00", "2026-13-22T21:00:00Z", "1e9"])
def test_what_is_no_past_state_is_refused(door, at: str) -> None:
    answer = door.get("/v1/threads/mine/messages", query_string={"at": at})

    assert (answer.status_code, answer.json["code"]) == (400, "bad_request")
    assert "RFC" not in answer.json["detail"]
    assert "2026-11-22T21:00:00Z" in answer.json["detail"]
