"""The calls of the first context service design."""

from __future__ import annotations

from typing import Any

import pytest

from tests.web.conftest import accept

EVENT: dict[str, Any] = {
    "correlation_id": "c-9",
    "event_type": "message.created",
    "source": "discord",
    "payload": {"text": "Hello"},
}


def test_an_event_is_logged_and_found_with_its_runs(client, runner) -> None:
    run_id = accept(runner, metadata={"correlation_id": "c-9"})
    accept(runner, metadata={"correlation_id": "c-10"})

    logged = client.post("/events", json=EVENT)
    response = client.post("/query", json={"query": "c-9", "strategies": ["correlation"]})

    assert logged.status_code == 201
    assert logged.json["event_id"].startswith("evt_")
    run, event = sorted(response.json["results"], key=lambda result: result["kind"], reverse=True)
    assert "next" not in response.json
    assert event == {
        "kind": "event",
        "id": logged.json["event_id"],
        "event_type": "message.created",
        "source": "discord",
        "payload": {"text": "Hello"},
        "principal": "local",
        "created_at": logged.json["created_at"],
    }
    del run["created_at"]
    assert run == {"kind": "run", "id": run_id, "agent": "assistant", "status": "queued", "principal": "local"}


def test_a_message_that_process_took_is_found(client, monkeypatch) -> None:
    monkeypatch.setattr("web.dialects.seeds.orchestrator.WAIT_S", 0)
    run_id = client.post("/process", json={"message": "Hello", "correlation_id": "c-9"}).json["run_id"]

    assert [result["id"] for result in client.post("/query", json={"query": "c-9"}).json["results"]] == [run_id]


def test_results_come_in_pages(client) -> None:
    event_ids = [client.post("/events", json=EVENT).json["event_id"] for _ in range(3)]

    first = client.post("/query", json={"query": "c-9", "limit": 2}).json
    second = client.post("/query", json={"query": "c-9", "limit": 2, "before": first["next"]}).json

    assert sorted(result["id"] for result in first["results"] + second["results"]) == sorted(event_ids)
    assert [len(first["results"]), len(second["results"])] == [2, 1]
    assert "next" not in second


def test_a_repeated_event_with_its_key_is_logged_once(client) -> None:
    headers = {"Idempotency-Key": "event-1"}

    sent = [client.post("/events", json=EVENT, headers=headers) for _ in range(2)]
    other = client.post("/events", json=EVENT | {"source": "slack"}, headers=headers)

    assert [answer.status_code for answer in sent] == [201, 201]
    assert sent[0].json == sent[1].json
    assert (other.status_code, other.json["code"]) == (409, "idempotency_conflict")
    assert len(client.post("/query", json={"query": "c-9"}).json["results"]) == 1


def test_an_unknown_strategy_is_refused_with_the_known_ones(client) -> None:
    refused = client.post("/query", json={"query": "c-9", "strategies": ["correlation", "graph"]})

    assert (refused.status_code, refused.json["code"]) == (422, "strategy_unknown")
    assert refused.json["detail"] == "there is no strategy 'graph'; known strategies: correlation."


LABELS: tuple[Any, ...] = ("", "x" * 129, "a\n", "a\u202e", 5, None)
PAYLOADS: tuple[Any, ...] = ("x", 5, None, {"x": "y" * 16 * 1024})
PLACES: tuple[Any, ...] = ("x", 0, None, [])
STRATEGIES: tuple[Any, ...] = ("correlation", ["correlation"] * 11, [])
UNFIT: list[tuple[str, dict[str, Any]]] = [
    ("/events", {}),
    *(("/events", {name: value for name, value in EVENT.items() if name != missing}) for missing in EVENT),
    *(("/events", EVENT | {"source": value}) for value in LABELS),
    *(("/events", EVENT | {"payload": value}) for value in PAYLOADS),
    ("/events", EVENT | {"tenant": "zeta"}),
    *(("/query", {"query": value}) for value in ("", "x" * 1001, 5, None)),
    *(("/query", {"query": "c", "strategies": value}) for value in STRATEGIES),
    *(("/query", {"query": "c", "before": value}) for value in PLACES),
    *(("/query", {"query": "c", "limit": value}) for value in (0, 201, None)),
]


@pytest.mark.parametrize(("path", "body"), UNFIT)
def test_what_does_not_fit_is_refused(door, path: str, body: dict[str, Any]) -> None:
    refused = door.post(path, json=body)

    assert (refused.status_code, refused.json["code"]) == (400, "bad_request")
