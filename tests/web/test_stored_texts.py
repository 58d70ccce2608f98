"""Guard: whatever text a client sends with a call, no secret in it is stored or answered, or the call is refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from sqlalchemy import select

from bus.journal import Journal
from config.database.tables import metadata

SECRET = "sk-live-0123456789abcdef0123456789"
DOORS: Mapping[str, Mapping[str, Any]] = {
    "/v1/runs": {"agent": "assistant", "input": "Hello", "thread_id": "t", "wait_s": 0, "metadata": {"note": "a"}},
    "/v1/agent/run": {"input": "Hello", "thread_id": "t", "correlation_id": "c", "config": {"agent_id": "assistant"}},
    "/process": {"message": "Hello", "thread_id": "t", "correlation_id": "c"},
    "/execute": {"tool_name": "clock", "arguments": {"a": "b"}, "timeout": 0},
    "/start-workflow": {"thread_id": "t", "agent_id": "assistant"},
    "/send-prompt": {"thread_id": "t", "prompt": "Hello"},
    "/end-chat": {"thread_id": "t"},
    "/events": {"correlation_id": "c", "event_type": "e", "source": "s", "payload": {"text": "Hello"}},
    "/v1/threads": {"agent": "assistant", "title": "Bread"},
    "/v1/grants": {"agent": "assistant", "principal": "local", "reason": "incident"},
    "/v1/keys": {"name": "ann", "agents": ["assistant"], "roles": ["viewer"]},
}
READ_ONLY = {"/query"}
OF_OTHERS = {"/confirm", "/v1/approvals"}
"""Answers to approvals; ``test_guardrails.py`` and ``test_questions.py`` have them."""
HEADERS = ["Idempotency-Key", "X-Correlation-Id", "Traceparent"]


def planted(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield, for each text in a body, where it is and the body with the secret in its place."""
    if isinstance(value, str):
        yield "", SECRET
    elif isinstance(value, Mapping | list):
        items = value.items() if isinstance(value, Mapping) else enumerate(value)
        for name, item in items:
            for location, changed in planted(item):
                copy: Any = dict(value) if isinstance(value, Mapping) else list(value)
                copy[name] = changed
                yield f".{name}{location}", copy


CASES = [(path, location, body) for path, valid in DOORS.items() for location, body in planted(valid)]


@pytest.mark.parametrize(("path", "place", "body"), CASES, ids=[f"{path}{location}" for path, location, _ in CASES])
def test_a_secret_in_a_body_is_not_stored(
    client: Any, journal: Journal, monkeypatch: pytest.MonkeyPatch, path: str, place: str, body: Any
) -> None:
    monkeypatch.setattr("web.dialects.seeds.orchestrator.WAIT_S", 0)  # no worker

    answer = client.post(path, json=body)

    assert answer.status_code < 500
    assert "event-stream" in answer.content_type or SECRET not in answer.get_data(as_text=True)
    assert SECRET not in stored(journal)


@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize("path", ["/v1/runs", "/events"])
def test_a_secret_in_a_header_is_not_stored(client: Any, journal: Journal, path: str, header: str) -> None:
    client.post(path, json=DOORS[path], headers={header: SECRET})

    assert SECRET not in stored(journal)


@pytest.mark.parity
def test_each_call_that_takes_a_body_is_here(client: Any) -> None:
    paths = client.get("/openapi.json").json["paths"]
    taking = {path for path, calls in paths.items() if "requestBody" in calls.get("post", {}) and "{" not in path}

    assert {path for path in taking if not path.startswith("/auth/")} == {*DOORS, *READ_ONLY, *OF_OTHERS}


def stored(journal: Journal) -> str:
    """Return all that is in the database."""
    with journal.database.read() as connection:
        tables = metadata.sorted_tables
        return "\n".join(str(tuple(row)) for table in tables for row in connection.execute(select(table)))
