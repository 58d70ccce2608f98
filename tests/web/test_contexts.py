"""The contexts of runs that are started over HTTP: made of settings, and of nothing that a request says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from flask.testing import FlaskClient

from config.settings import Settings
from tests.web.conftest import door_of, opened

ID = "4bf92f3577b34da6a3ce929d0e0e4736"
SENT = {"traceparent": f"00-{ID}-00f067aa0ba902b7-01"}
CLAIMED = {
    "Callboard-Context": '{"golden.context":{"app_id":"evil"}}',
    "X-App-Id": "evil",
    "X-Cost-Center": "theirs",
    "X-Roles": "admin",
}


@pytest.fixture
def declared(settings: Settings) -> Iterator[FlaskClient]:
    shop = settings.model_copy(update={"app_id": "shop", "environment": "production", "cost_center": "CC-12"})
    with opened(shop) as runner, door_of(runner) as client:
        yield client


def test_a_request_chooses_its_trace_and_nothing_else(declared: Any) -> None:
    body = {"agent": "assistant", "input": "Hello", "metadata": {"app_id": "evil", "cost_center": "theirs"}}
    started = declared.post("/v1/runs", json=body, headers={**SENT, **CLAIMED})

    run = declared.get(started.headers["Location"]).json

    assert run["context"] == {
        "app_id": "shop",
        "environment": "production",
        "initiator_id": "local",
        "trace_id": ID,
        "cost_center": "CC-12",
    }
    roles = ["admin", "approver", "operator", "viewer"]
    of_none = {"initiator_id": "local", "roles": roles, "trace_id": ID, "token_ref": "none"}
    assert run["security_context"] == of_none


@pytest.mark.parametrize(
    "name", ["context", "security_context", "golden", "app_id", "initiator_id", "roles", "token_ref"]
)
def test_a_body_with_a_context_is_refused(declared: Any, name: str) -> None:
    answer = declared.post("/v1/runs", json={"agent": "assistant", "input": "Hello", name: {"app_id": "evil"}})

    assert answer.status_code == 400


def test_lists_have_no_contexts(declared: Any) -> None:
    declared.post("/v1/runs", json={"agent": "assistant", "input": "Hello"})

    (run,) = declared.get("/v1/runs").json["runs"]

    assert run.keys().isdisjoint({"context", "security_context", "context_json"})
