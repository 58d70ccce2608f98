"""A run's events over HTTP: cursors, pages, long polls, streams that end; and what the policy decided of its calls."""

from __future__ import annotations

import threading

import pytest

from agents.runner import Runner
from bus.journal.owner import Commit, StepStarted
from bus.payloads import StatusPayload
from config.policy_decision import PolicyDecision, Verdict
from tests.web.conftest import RunOwner, accept

JSON = {"Accept": "application/json"}


@pytest.fixture
def ended(runner, journal) -> str:
    """A run of eight events: queued, running, a, b, c, waiting, message, end."""
    run_id = accept(runner)
    owner = RunOwner(journal, run_id)
    owner.say("a", "b", "c")
    owner.commit(StatusPayload(status="waiting"))
    owner.finish("abc")
    return run_id


def behind(whole: str, cursor: int) -> str:
    """Return the frames of a stream behind the one with this number."""
    return whole.partition(f"id: {cursor}\n\n")[2] if cursor else whole


def numbers(text: str) -> list[int]:
    return [int(line[4:]) for line in text.splitlines() if line.startswith("id: ")]


def test_a_stream_has_every_event_and_closes(client, ended: str) -> None:
    answer = client.get(f"/v1/runs/{ended}/events")

    assert answer.mimetype == "text/event-stream"
    assert answer.text.startswith("retry: 2000\nevent: ")
    assert numbers(answer.text) == list(range(1, 9))
    assert "event: end\n" in answer.text


def test_resuming_anywhere_gives_the_same_bytes(client, ended: str) -> None:
    whole = client.get(f"/v1/runs/{ended}/events").text.removeprefix("retry: 2000\n")

    for cursor in range(8):
        rest = client.get(f"/v1/runs/{ended}/events", headers={"Last-Event-ID": str(cursor)}).text
        assert rest.removeprefix("retry: 2000\n") == behind(whole, cursor)


def test_after_the_end_there_is_nothing(client, ended: str) -> None:
    answer = client.get(f"/v1/runs/{ended}/events?after=8")

    assert (answer.status_code, answer.data) == (204, b"")


def test_the_header_wins_over_the_address(client, ended: str) -> None:
    answer = client.get(f"/v1/runs/{ended}/events?after=2&last_event_id=1", headers={"Last-Event-ID": "6"})

    assert numbers(answer.text) == [7, 8]


@pytest.mark.parametrize("cursor", ["-1", "x", "1.5", "1e3", "0x1", " 1", "١", "9" * 30, "1;2", "NaN"])
def test_what_is_no_cursor_is_refused(client, ended: str, cursor: str) -> None:
    answer = client.get(f"/v1/runs/{ended}/events?after={cursor}")

    assert (answer.status_code, answer.json["code"]) == (400, "cursor_invalid")


@pytest.mark.parametrize("cursor", ["9", "1000000", "9" * 19])
def test_a_cursor_beyond_the_end_is_refused(client, ended: str, cursor: str) -> None:
    answer = client.get(f"/v1/runs/{ended}/events", headers={"Last-Event-ID": cursor})

    assert (answer.status_code, answer.json["code"], answer.json["last"]) == (409, "cursor_ahead", 8)


def test_json_is_the_same_as_a_page(client, ended: str) -> None:
    page = client.get(f"/v1/runs/{ended}/events?after=2&limit=3", headers=JSON).json
    rest = client.get(f"/v1/runs/{ended}/events?after={page['cursor']}", headers=JSON).json

    assert [event["seq"] for event in page["events"]] == [3, 4, 5]
    assert (page["cursor"], page["ended"]) == ("5", False)
    assert [event["type"] for event in rest["events"]] == ["status", "message", "end"]
    assert (rest["cursor"], rest["ended"]) == ("8", True)


def test_a_page_has_what_is_not_in_sql_yet(client, runner, journal) -> None:
    run_id = accept(runner)
    RunOwner(journal, run_id).say("x", "y")

    page = client.get(f"/v1/runs/{run_id}/events", headers=JSON).json

    assert [event.get("content") for event in page["events"]] == [None, None, "x", "y"]


def test_a_long_poll_returns_with_the_first_event(client, runner, journal) -> None:
    run_id = accept(runner)
    owner = RunOwner(journal, run_id)
    timer = threading.Timer(0.05, lambda: owner.say("x"))
    timer.start()

    page = client.get(f"/v1/runs/{run_id}/events?after=2&wait_s=20").json
    timer.join()

    assert [event["content"] for event in page["events"]] == ["x"]


def test_a_long_poll_ends_without_events(client, runner, journal) -> None:
    run_id = accept(runner)
    RunOwner(journal, run_id)

    page = client.get(f"/v1/runs/{run_id}/events?after=2&wait_s=1").json

    assert page == {"events": [], "cursor": "2", "ended": False}


@pytest.mark.parametrize("query", ["after=8", "after=8&wait_s=60"])
def test_a_page_after_the_end_is_empty_and_says_that_the_run_has_ended(client, ended: str, query: str) -> None:
    page = client.get(f"/v1/runs/{ended}/events?{query}", headers=JSON).json

    assert page == {"events": [], "cursor": "8", "ended": True}


@pytest.mark.parametrize("query", ["wait_s=61", "wait_s=-1", "limit=0", "limit=501", "aftr=1"])
def test_a_wrong_parameter_is_refused(client, ended: str, query: str) -> None:
    answer = client.get(f"/v1/runs/{ended}/events?{query}")

    assert (answer.status_code, answer.json["code"]) == (400, "bad_request")


def test_asking_for_the_head_streams_nothing(client, runner) -> None:
    answer = client.head(f"/v1/runs/{accept(runner)}/events")

    assert (answer.status_code, answer.data) == (200, b"")


def test_a_full_process_says_when_to_come_back(client, app, runner) -> None:
    app.extensions["callboard"].hub.viewers.max_viewers = 0

    for path in (f"/v1/runs/{accept(runner)}/events", "/v1/events"):
        answer = client.get(path)
        assert (answer.status_code, answer.json["code"]) == (503, "overloaded")
        assert int(answer.headers["Retry-After"]) > 0


def step(number: int) -> StepStarted:
    decided = PolicyDecision(
        verdict=Verdict.CONSTRAIN, rule="few", reason="Few.", version="v1", arguments={"limit": number}, timeout_s=5.0
    )
    return StepStarted(
        id=f"stp_{number}",
        kind="tool",
        name="search",
        call_id=f"call_{number}",
        effect="pure",
        arguments_digest="d",
        idempotency_key=f"key_{number}",
        decision=decided,
    )


@pytest.fixture
def run_id(runner: Runner) -> str:
    run_id = accept(runner)
    owner = RunOwner(runner.journal, run_id)
    runner.journal.loop.run(owner.writer.commit(Commit(started=[step(number) for number in (1, 2, 3)])))
    return run_id


def test_decisions_are_listed_in_pages(client, run_id):
    first = client.get(f"/v1/runs/{run_id}/decisions?limit=2").json
    rest = client.get(f"/v1/runs/{run_id}/decisions", query_string={"after": first["next"]}).json

    assert [decision["number"] for decision in first["decisions"]] == [1, 2]
    (last,) = rest["decisions"]
    assert last | {"at": "now"} == {
        "step_id": "stp_3",
        "number": 3,
        "point": "tool",
        "name": "search",
        "call_id": "call_3",
        "effect": "pure",
        "status": "started",
        "at": "now",
        "verdict": "constrain",
        "rule": "few",
        "reason": "Few.",
        "version": "v1",
        "arguments": {"limit": 3},
        "timeout_s": 5.0,
    }
    assert "next" not in rest


@pytest.mark.parametrize("query", ["after=-1", "after=x", "limit=0", "limit=201", "before=1"])
def test_bad_parameters_are_refused(client, run_id, query):
    assert client.get(f"/v1/runs/{run_id}/decisions?{query}").status_code == 400


def test_an_unknown_run_has_none(client):
    refused = client.get("/v1/runs/run_unknown/decisions")

    assert refused.status_code == 404
    assert refused.json["code"] == "run_unknown"
