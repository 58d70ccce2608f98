"""Workflows over HTTP: started beside agents, listed apart from them, shown with their graph, and given signals."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.runner import Runner
from agents.testing import AgentKit
from bus.messages.run_agent import RunAgentMessage
from config.identity.principal import Principal, Role
from config.settings import Settings
from handlers.run_agent import run_agent
from tests.agents.sample_tools import add
from tests.agents.workflows import test_for_each
from tests.agents.workflows.flows import edges, node
from tests.web.conftest import door_of, eventually
from web.schemas.run import AcceptedRun

BILLING = """\
name: Billing
description: Bills a customer.
input: {type: object, properties: {cents: {type: integer}}, required: [cents]}
variables: {most: 100}
nodes:
  - {id: start, type: START}
  - {id: word, type: LLM, config: {prompt: "A secret plan", model: demo/assistant}}
  - {id: paid, type: WAIT, config: {signal: paid, schema: {type: integer}}}
  - {id: end, type: END}
edges: [{source: start, target: word}, {source: word, target: paid}, {source: paid, target: end}]
"""


@pytest.fixture
def settings(settings: Settings) -> Settings:
    folder = Path(settings.agents_dir)
    (folder / "billing.yaml").write_text(BILLING)
    (folder / "hidden.yaml").write_text(f"listed: false\n{BILLING}")
    (folder / "broken.yaml").write_text(BILLING.replace("target: end", "target: nowhere"))
    (folder / "wrong.yaml").write_text("name: Wrong\nnonsense: true\n")
    return settings


def start(client, **fields: Any) -> Any:
    return client.post("/v1/runs", json={"workflow": "billing", "input": {"cents": 5}, **fields})


def test_a_workflow_is_started_with_its_input_once_by_a_key(client) -> None:
    fields: dict[str, Any] = {"thread_id": "bills", "metadata": {"order": 17}, "priority": "high"}
    body = {"workflow": "billing", "input": {"cents": 5, "note": "Two chairs"}, **fields}
    first, again = (client.post("/v1/runs", json=body, headers={"Idempotency-Key": "k"}) for _ in range(2))

    assert (first.status_code, first.json.keys() <= AcceptedRun.model_fields.keys()) == (202, True)
    assert first.json["run_id"] == again.json["run_id"]
    run = client.get(first.headers["Location"]).json
    assert (run["kind"], run["agent"], run["agent_name"]) == ("workflow", "billing", "Billing")
    assert run["title"] == "Billing: Two chairs"
    assert (run["thread_id"], run["metadata"], run["priority"]) == ("bills", {"order": 17}, "high")


@pytest.mark.parametrize(
    ("fields", "code", "words"),
    [
        ({"input": {}}, "input_invalid", "required property"),
        ({"workflow": "assistant"}, "workflow_missed", "is an agent"),
        ({"workflow": "bilings"}, "agent_unknown", "Did you mean 'billing'?"),
        ({"agent": "assistant"}, "bad_request", "'agent' with a message, or 'workflow'"),
        ({"input": "five cents"}, "bad_request", "'input' has to be an object"),
        ({"if_busy": "reject"}, "bad_request", "'if_busy' is of agents"),
    ],
)
def test_what_cannot_be_started_is_refused_with_the_remedy(
    fields: dict[str, Any], code: str, words: str, client, runner: Runner
) -> None:
    answer = start(client, **fields)

    assert answer.json["code"] == code
    assert code == "agent_unknown" or words in answer.json["detail"]
    assert client.get("/v1/runs").json["runs"] == []


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"agent": "billing", "input": "Hello"}, "start it with `workflow`"),
        ({"agent": "assistant", "input": {"cents": 5}}, "'input' has to be text"),
        ({"input": "Hello"}, "'agent' with a message, or 'workflow'"),
    ],
)
def test_no_workflow_is_started_as_an_agent_nor_nothing(body: dict[str, Any], words: str, client) -> None:
    answer = client.post("/v1/runs", json=body)

    assert answer.status_code == 400
    assert words in answer.json["detail"]


def test_no_tool_of_a_workflow_is_called_apart_from_it(client) -> None:
    answer = client.post("/execute", json={"tool_name": "add", "config": {"agent_id": "billing"}})

    assert (answer.status_code, answer.json["code"]) == (400, "workflow_missed")


def test_workflows_and_agents_are_listed_apart_each_with_its_broken_files(client) -> None:
    workflows, agents = client.get("/v1/workflows").json, client.get("/v1/agents").json

    assert [(row["id"], row["input"]["required"]) for row in workflows["workflows"]] == [("billing", ["cents"])]
    assert [agent["id"] for agent in agents["agents"]] == ["assistant"]
    assert [problem["id"] for problem in workflows["problems"]] == ["broken"]
    assert [problem["id"] for problem in agents["problems"]] == ["wrong"]


def test_a_workflow_is_shown_with_its_graph_and_without_its_prompts(client) -> None:
    workflow = client.get("/v1/workflows/billing")

    assert workflow.json["nodes"][1] == {"id": "word", "type": "LLM", "config": {"model": "demo/assistant"}}
    assert workflow.json["edges"][0] == {"source": "start", "target": "word"}
    assert workflow.json["signals"] == [{"name": "paid", "node": "paid", "data_schema": {"type": "integer"}}]
    assert (workflow.json["variables"], "A secret plan" in workflow.text) == ({"most": 100}, False)


def test_a_run_keeps_the_drawing_that_it_was_started_with(client, settings: Settings) -> None:
    run = client.get(start(client).headers["Location"]).json
    (Path(settings.agents_dir) / "billing.yaml").write_text(
        BILLING.replace("id: paid", "id: settled")
        .replace("target: paid", "target: settled")
        .replace("source: paid", "source: settled")
    )

    now = client.get("/v1/workflows/billing").json
    then = client.get(f"/v1/workflows/billing?digest={run['definition']}").json

    assert [workflow["nodes"][2]["id"] for workflow in (now, then)] == ["settled", "paid"]
    assert (then["digest"], now["digest"] == then["digest"]) == (run["definition"], False)


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/v1/workflows/assistant", "workflow_missed"),
        ("/v1/agents/billing", "workflow_missed"),
        ("/v1/workflows/none", "agent_unknown"),
        (f"/v1/workflows/billing?digest={'0' * 64}", "version_unknown"),
        ("/v1/workflows/billing?digest=x", "bad_request"),
        ("/v1/workflows/broken", "definition_invalid"),
    ],
)
def test_what_is_no_workflow_is_said(path: str, code: str, client) -> None:
    assert client.get(path).json["code"] == code


# --- signals


@pytest.mark.parametrize(
    ("name", "data", "code"),
    [("gone", 5, "signal_unknown"), ("paid", "five", "signal_invalid"), ("paid", None, "signal_invalid")],
)
def test_a_signal_that_no_node_waits_for_is_refused(name: str, data: Any, code: str, client) -> None:
    run_id = start(client).json["run_id"]
    sent = {} if data is None else {"json": data}

    assert client.post(f"/v1/runs/{run_id}/signals/{name}", **sent).json["code"] == code


@pytest.mark.parametrize("name", ["paid", "gone"])
def test_a_signal_to_a_run_of_another_tenant_is_refused_as_if_there_were_none(
    name: str, client, runner: Runner
) -> None:
    owner = Principal(tenant="other", id="local", roles=frozenset(Role))
    run_id = runner.run_workflow("billing", {"cents": 5}, principal=owner).run_id

    answers = [client.post(f"/v1/runs/{each}/signals/{name}", json=5) for each in (run_id, "run_none")]

    assert [(answer.status_code, answer.json["code"]) for answer in answers] == 2 * [(404, "run_unknown")]
    assert runner.signal(run_id, "paid", 5, principal=owner).status == "queued"


def test_a_signal_is_given_once_and_again_by_its_key(client) -> None:
    path = f"/v1/runs/{start(client).json['run_id']}/signals/paid"
    first, again = (client.post(path, json=5, headers={"Idempotency-Key": "k"}) for _ in range(2))

    assert (first.status_code, first.json["status"]) == (202, "queued")
    assert first.json["control_id"] == again.json["control_id"]
    assert client.post(path, json=5).json["code"] == "control_refused"
    assert client.post(path, json=6, headers={"Idempotency-Key": "k"}).json["code"] == "idempotency_conflict"


@pytest.mark.parametrize("body", [b"five", b'{"a": 1, "a": 2}', b"[NaN]", b'"\\u0000"', b"[" * 80])
def test_the_data_of_a_signal_are_unambiguous_json(body: bytes, client) -> None:
    path = f"/v1/runs/{start(client).json['run_id']}/signals/paid"

    answers = [client.post(path, data=body, content_type=kind) for kind in ("application/json", "text/plain")]

    assert [answer.json["code"] for answer in answers] == ["bad_request", "media_type_refused"]


def test_no_agents_run_takes_a_signal(client) -> None:
    run_id = client.post("/v1/runs", json={"agent": "assistant", "input": "Hello"}).json["run_id"]

    answer = client.post(f"/v1/runs/{run_id}/signals/paid", json=5)

    assert (answer.status_code, answer.json["code"]) == (409, "control_refused")


# --- a run that is carried out


@pytest.fixture
def kit_door() -> Iterator[tuple[AgentKit, Any]]:
    with AgentKit(tools=[add]) as kit, door_of(kit.runner) as door:
        yield kit, door


def test_the_steps_of_a_run_are_read_by_node_and_below_a_loop(kit_door: tuple[AgentKit, Any]) -> None:
    kit, door = kit_door
    nodes = [
        {"id": "start", "type": "START"},
        {"id": "all", "type": "FOR_EACH", "config": {"items": "{{ input.numbers }}", "on_item_error": "collect"}},
        {"id": "sum", "type": "FUNCTION", "config": {"tool": "add", "arguments": {"a": "{{ item }}", "b": 1}}},
        {"id": "end", "type": "END"},
    ]
    edges = [("start", "all", ""), ("all", "sum", "foreach-body"), ("all", "end", "")]
    drawn = [{"source": source, "target": target, "source_handle": handle} for source, target, handle in edges]
    kit.workflow("sums", nodes=nodes, edges=drawn)

    end = door.post("/v1/runs", json={"workflow": "sums", "input": {"numbers": [1, "x", 3]}, "detached": False})
    path = f"/v1/runs/{end.json['run_id']}/steps"
    first = door.get(f"{path}?under=all&limit=1").json
    rest = door.get(f"{path}?under=all&after={first['next']}").json["steps"]
    (step,) = door.get(f"{path}?node=all/2/sum").json["steps"]

    assert (end.json["status"], end.json["output"][0]) == ("succeeded", 2)
    assert [step["node"] for step in (*first["steps"], *rest)] == ["all/1", "all/0", "all/2"]
    assert first["steps"][0]["error"]
    assert (step["kind"], step["name"], step["input"], step["result"]) == ("tool", "add", {"a": 3, "b": 1}, 4)


def test_open_runs_are_counted_by_the_nodes_that_are_under_way(kit_door: tuple[AgentKit, Any]) -> None:
    kit, door = kit_door
    nodes = [
        {"id": "start", "type": "START"},
        {"id": "all", "type": "FOR_EACH", "config": {"items": "{{ input.numbers }}"}},
        {"id": "paid", "type": "WAIT", "config": {"signal": "paid"}},
        {"id": "end", "type": "END"},
    ]
    edges = [("start", "all", ""), ("all", "paid", "foreach-body"), ("all", "end", "")]
    drawn = [{"source": source, "target": target, "source_handle": handle} for source, target, handle in edges]
    kit.workflow("bills", nodes=nodes, edges=drawn)
    for _ in range(2):
        body = {"workflow": "bills", "input": {"numbers": [1, 2]}, "detached": False, "wait_s": 0}
        door.post("/v1/runs", json=body)
    eventually(lambda: len(door.get("/v1/runs?status=waiting").json["runs"]) == 2)
    run_ids = [run["run_id"] for run in door.get("/v1/runs").json["runs"]]

    counts = door.get("/v1/runs/counts?by=node&agent=bills").json

    assert counts["total"] == 2
    assert {"value": "paid", "count": 2} in counts["groups"], "two items of a run are one run"
    for run_id in run_ids:
        door.post(f"/v1/runs/{run_id}/cancel")
    assert door.get("/v1/runs/counts?by=node&agent=bills").json == {"by": "node", "total": 0, "groups": []}


def test_a_place_among_steps_is_sent_back_as_it_came(client) -> None:
    path = f"/v1/runs/{start(client).json['run_id']}/steps"

    assert client.get(f"{path}?after=&node=&under=").json == {"steps": []}
    for query in ("after=x", "after=2.1"):
        assert client.get(f"{path}?{query}").json["code"] == "bad_request"


@pytest.mark.parity
@pytest.mark.parametrize(
    ("broken", "body", "made_again"), [({3, 9}, {}, [3, 9]), ({9}, {}, [9]), ({3}, {"failed_items": True}, [3, 9])]
)
def test_a_retry_makes_again_what_failed_and_what_follows_from_it(
    kit_door: tuple[AgentKit, Any],
    monkeypatch: pytest.MonkeyPatch,
    broken: set[int],
    body: dict[str, Any],
    made_again: list[int],
) -> None:
    kit, door = kit_door
    calls: list[int] = []
    monkeypatch.setattr(test_for_each, "BROKEN", broken)
    monkeypatch.setattr(test_for_each, "CALLS", calls)
    fields = test_for_each.doubling(on_item_error="collect", at_once=1)
    fields["nodes"].insert(3, node("last", "FUNCTION", tool="double", arguments={"n": 9}))
    fields["edges"] = edges("start each", "each one foreach-body", "each last", "last end")
    kit.workflow(tools=[test_for_each.double], **fields)
    run_id = door.post("/v1/runs", json={"workflow": "flow", "input": {"numbers": [2, 3]}, "detached": False}).json[
        "run_id"
    ]
    calls.clear()
    broken.clear()

    retry = door.post(f"/v1/runs/{run_id}/retry", json=body).json
    run_agent(RunAgentMessage(run_id=retry["run_id"], agent_id="flow", thread_id=retry["thread_id"]).to_wire())
    run = door.get(f"/v1/runs/{retry['run_id']}").json

    assert (run["status"], run["retry_of"], run["output"]) == ("succeeded", run_id, 18)
    assert calls == made_again
