"""Workflows: both clients start, list, signal and look into them, on a web process without workers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.runner import Runner
from bus.journal.owner import Commit, StepEnded, StepStarted
from callboard_client import Callboard, NodeEvent, RequestRefused, event_of
from tests.clients.python.blocking import KINDS, client_of
from tests.journeys.web_server import Web
from tests.web.conftest import RunOwner, furnish_served, opened

pytestmark = pytest.mark.parity

WORKFLOW = """\
name: Billing
input: {type: object, properties: {cents: {type: integer}}, required: [cents]}
nodes:
  - {id: start, type: START}
  - {id: paid, type: WAIT, config: {signal: paid, schema: {type: integer}}}
  - {id: end, type: END}
edges: [{source: start, target: paid}, {source: paid, target: end}]
"""


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory, empty_database: Path) -> Iterator[Runner]:
    settings = furnish_served(tmp_path_factory.mktemp("web"), empty_database)
    (settings.agent_folders[0] / "billing.yaml").write_text(WORKFLOW)
    (settings.agent_folders[0] / "broken.yaml").write_text("nodes: []\n")
    with opened(settings) as new_runner:
        yield new_runner


@pytest.fixture(scope="module")
def web(runner: Runner) -> Iterator[Web]:
    with Web(runner.settings) as started:
        yield started


@pytest.fixture(params=KINDS)
def callboard(request: pytest.FixtureRequest, web: Web) -> Iterator[Callboard]:
    """A client of each kind in turn."""
    with client_of(request.param, web.address) as client:
        yield client


def test_workflows_are_listed_apart_from_agents_and_shown_with_their_graph(callboard: Callboard) -> None:
    (listed,), (problem,) = callboard.workflows.list(), callboard.workflows.problems()
    workflow = callboard.workflows.get("billing")

    assert (listed.id, listed.input["required"], problem.id) == ("billing", ["cents"], "broken")
    assert [node["id"] for node in workflow.nodes] == ["start", "paid", "end"]
    assert (workflow.edges[0], workflow.signals[0]["name"]) == ({"source": "start", "target": "paid"}, "paid")
    assert "billing" not in {agent.id for agent in callboard.agents.list()}


def test_a_workflow_is_started_once_by_a_key_and_has_the_definition_of_its_start(callboard: Callboard) -> None:
    key = f"k-{type(callboard).__name__}"
    handle, again = (callboard.run_workflow("billing", {"cents": 5}, idempotency_key=key) for _ in range(2))
    run = callboard.runs.get(handle.run_id)

    assert (handle.run_id, run.kind, run.agent) == (again.run_id, "workflow", "billing")
    assert callboard.workflows.get("billing", digest=run.definition).digest == run.definition
    with pytest.raises(RequestRefused) as refused:
        callboard.run_workflow("billing", {"cents": "five"})
    assert refused.value.code == "input_invalid"


def test_a_signal_has_any_data_and_is_given_once(callboard: Callboard) -> None:
    handle = callboard.run_workflow("billing", {"cents": 5})

    first = handle.signal("paid", 5, idempotency_key="once")

    assert first.control_id is not None
    assert handle.signal("paid", 5, idempotency_key="once").control_id == first.control_id
    for name, data, code in (("paid", 6, "control_refused"), ("gone", None, "signal_unknown")):
        with pytest.raises(RequestRefused) as refused:
            handle.signal(name, data)
        assert refused.value.code == code


def test_steps_are_read_by_node_and_below_a_loop(callboard: Callboard, runner: Runner) -> None:
    handle = callboard.run_workflow("billing", {"cents": 5})
    owner = RunOwner(runner.journal, handle.run_id)
    for index, status in enumerate(("done", "failed", "done")):
        started = StepStarted(
            id=f"{handle.run_id}{index}",
            kind="item",
            name="all",
            node=f"all/{index}",
            arguments_digest="",
            idempotency_key="k",
        )
        ended = StepEnded(id=started.id, status=status, result={"error": {"message": "no"}})
        runner.journal.loop.run(owner.writer.commit(Commit(recorded=[(started, ended)])))

    page = callboard.runs.steps(handle.run_id, under="all", limit=2)
    rest = callboard.runs.steps(handle.run_id, under="all", after=page.next)
    (step,) = callboard.runs.steps(handle.run_id, node="all/1")

    assert [step.node for step in [*page, *rest]] == ["all/1", "all/0", "all/2"]
    assert (step.status, step.error, rest.next) == ("failed", "no", None)


def test_the_events_of_nodes_have_a_type_of_their_own() -> None:
    event = event_of({"type": "node", "seq": 1, "node_id": "a", "node_type": "LLM", "status": "done", "path": ["x", 1]})

    assert isinstance(event, NodeEvent)
    assert (event.node_id, event.path) == ("a", ["x", 1])
