"""Workflows as tools: listed with their input, started at once, and refused as the capability design says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from config.identity.principal import Principal
from tests.web.mcp.conftest import Place

WORKFLOW = """\
name: Greeting
description: Greets a person.
model: demo/assistant
access: {tenants: [default]}
input: {type: object, properties: {who: {type: string}}, required: [who], additionalProperties: false}
tools: ['tests.web.mcp.counter:add', 'tests.agents.sample_tools:launch']
nodes:
  - {id: start, type: START}
  - {id: greet, type: TRANSFORM, config: {output: "Hello {{ input.who }}"}}
  - {id: end, type: END}
edges: [{source: start, target: greet}, {source: greet, target: end}]
"""
ONLY_HERS = "name: Hers\naccess: {principals: [ann]}\n" + WORKFLOW.partition("additionalProperties: false}\n")[2]


@pytest.fixture(autouse=True)
def _workflows(place: Place) -> Iterator[None]:
    folder = Path(place.service.settings.agent_folders[0])
    (folder / "greeting.yaml").write_text(WORKFLOW)
    (folder / "hers.yaml").write_text(ONLY_HERS)
    yield
    for name in ("greeting", "hers"):
        (folder / f"{name}.yaml").unlink()


def test_a_workflow_is_listed_with_its_input_and_none_of_its_tools_by_it(place: Place, mode: str) -> None:
    listed = place.use(lambda client: client.list_tools(), mode).tools

    by_name = {tool.name: tool for tool in listed}
    assert by_name["greeting"].input_schema["properties"] == {"who": {"type": "string"}}
    assert by_name["greeting"].input_schema["$schema"].endswith("2020-12/schema")
    assert {"workflowId", "runId", "statusUrl", "trace_id"} <= set(
        (by_name["greeting"].output_schema or {})["properties"]
    )
    assert {"greeting_add", "launch"}.isdisjoint(by_name)


@pytest.mark.parity
def test_only_those_who_may_start_it_are_offered_a_workflow(place: Place, mode: str) -> None:
    def names(principal: Principal) -> set[str]:
        listed = place.as_principal(principal).use(lambda client: client.list_tools(), mode).tools
        return {tool.name for tool in listed}

    assert "hers" in names(Principal(id="ann", roles=frozenset()))
    assert "hers" not in names(Principal(id="ben", roles=frozenset()))
    assert "greeting" not in names(Principal(tenant="acme", id="ben"))
    assert "greeting" not in names(Principal(agents=frozenset({"counter"})))


def test_a_call_starts_it_and_names_the_run_as_the_capability_design_does(place: Place, mode: str) -> None:
    state = place.state("greeting", mode, who="Ann")

    assert state["workflowId"] == state["runId"] == state["run_id"]
    assert state["statusUrl"] == state["status_url"]
    assert state["statusUrl"].endswith(state["runId"])
    assert len(state["trace_id"]) == 32
    end = place.state("run_status", mode, run_id=state["runId"], wait_s=20)
    assert (end["status"], end["output"]) == ("succeeded", "Hello Ann")


def test_an_input_that_does_not_fit_makes_no_run(place: Place, mode: str) -> None:
    state = place.state("greeting", mode, whom="Ann")

    assert (state["status"], state["code"]) == ("refused", "INPUT_VALIDATION_FAILED")
    assert len(state["errors"]) == 2
    assert "run_id" not in state
