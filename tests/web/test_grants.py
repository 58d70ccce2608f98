"""Privilege grants over HTTP: issued by administrators, used by starts, never from anything else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from bus.journal import Journal

GRANT = {"agent": "assistant", "principal": "local", "reason": "incident 4711"}


def issue(client: Any, **more: Any) -> Any:
    return client.post("/v1/grants", json=GRANT | more)


def text_of(answer: Any) -> str:
    return str(answer.json["grant"])


def test_a_grant_is_issued_listed_and_revoked(client: Any) -> None:
    issued = issue(client, minutes=5).json

    assert (issued["agent"], issued["principal"], issued["reason"]) == ("assistant", "local", "incident 4711")
    listed = client.get("/v1/grants").json["grants"]
    assert listed == [{name: value for name, value in issued.items() if name != "grant"}]
    for _ in range(2):
        assert client.delete(f"/v1/grants/{issued['grant_id']}").status_code == 204
    assert "revoked_at" in client.get("/v1/grants").json["grants"][0]
    assert client.delete("/v1/grants/grt_1").json["code"] == "grant_unknown"


@pytest.mark.parametrize(
    ("path", "body"),
    [("/v1/runs", {"agent": "assistant", "input": "Hello"}), ("/execute", {"tool_name": "clock", "timeout": 0})],
)
def test_a_start_uses_it_up(client: Any, journal: Journal, path: str, body: Mapping[str, Any]) -> None:
    grant = text_of(issue(client))

    started = client.post(path, json={**body, "grant": grant, **_agent(path)})
    again = client.post(path, json={**body, "grant": grant, **_agent(path)})

    assert started.status_code == 202, started.text
    run = client.get(f"/v1/runs/{started.json['run_id']}").json
    assert run["grant_id"] == client.get("/v1/grants").json["grants"][0]["grant_id"]
    assert (again.status_code, again.json["code"]) == (403, "grant_refused")
    assert grant not in again.text


def _agent(path: str) -> dict[str, Any]:
    return {"config": {"agent_id": "assistant"}} if path == "/execute" else {}


@pytest.mark.parametrize("text", ["", "true", "cbg_" + "0" * 26 + "_" + "0" * 64, "grt_01m7wyc882adz9tga1jxhzbj7w"])
def test_what_is_no_grant_is_refused_and_makes_no_run(client: Any, text: str) -> None:
    answer = client.post("/v1/runs", json={"agent": "assistant", "input": "Hello", "grant": text})

    assert (answer.status_code, answer.json["code"]) == (403, "grant_refused")
    assert client.get("/v1/runs").json["runs"] == []


@pytest.mark.parametrize(
    "more", [{"privileged": True}, {"grant": True}, {"grant": None}, {"grant_id": "grt_1"}, {"grant": "x" * 201}]
)
def test_other_forms_of_a_privilege_are_refused(client: Any, more: Mapping[str, Any]) -> None:
    answer = client.post("/v1/runs", json={"agent": "assistant", "input": "Hello", **more})

    assert (answer.status_code, answer.json["code"]) == (400, "bad_request")


def test_headers_give_no_privilege(client: Any) -> None:
    headers = {"X-Privileged": "true", "X-Callboard-Grant": text_of(issue(client)), "Grant": "1"}
    started = client.post("/v1/runs", json={"agent": "assistant", "input": "Hello"}, headers=headers)

    assert "grant_id" not in client.get(f"/v1/runs/{started.json['run_id']}").json


@pytest.mark.parametrize(
    "more",
    [
        {"reason": ""},
        {"reason": "x" * 201},
        {"reason": " "},
        {"minutes": 0},
        {"minutes": 1441},
        {"minutes": True},
        {"principal": ""},
        {"principal": "../x"},
        {"tenant": "acme"},
        {"issued_by": "root"},
        {"run_id": "run_1"},
    ],
)
def test_a_grant_of_another_form_is_not_issued(client: Any, more: Mapping[str, Any]) -> None:
    answer = issue(client, **more)

    assert (answer.status_code, answer.json["code"]) == (400, "bad_request")
    assert client.get("/v1/grants").json == {"grants": []}


def test_a_grant_in_an_address_is_refused(client: Any) -> None:
    assert client.get(f"/v1/runs?agent={text_of(issue(client))}").json["code"] == "secret_in_address"


def test_it_needs_an_agent(client: Any) -> None:
    assert issue(client, agent="none").json["code"] == "agent_unknown"
