"""Workflows in Python: carried out again over their records."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agents.handle import RunHandle
from agents.testing import AgentKit
from agents.tools.tool import tool
from bus.journal.clients import Origin
from bus.payloads import ErrorPayload
from config.errors import CallboardError
from tests.agents.workflows import blueprints
from tests.agents.workflows.conftest import Losses
from tests.agents.workflows.flows import answer, events, until, wait_until

CALLS: list[str] = []
"""What the tools have done."""


@tool(effect="idempotent")
def book(what: str) -> dict[str, str]:
    """Book something that is not bad."""
    CALLS.append(f"book {what}")
    if what == "bad":
        raise ValueError("it is bad")
    return {"id": what}


@tool(effect="idempotent")
def cancel(id: str) -> str:
    """Cancel something."""
    CALLS.append(f"cancel {id}")
    return "cancelled"


@tool(effect="unsafe", timeout_s=0.1)
async def linger() -> None:
    """Take too long."""
    await asyncio.sleep(5)


@pytest.fixture(autouse=True)
def _fresh() -> None:
    CALLS.clear()


def started(kit: AgentKit, name: str, data: dict[str, Any]) -> RunHandle:
    signals = {"shipped": {"type": "object"}}
    kit.workflow(tools=[book, cancel, linger], blueprint=f"{blueprints.__name__}:{name}", signals=signals)
    return kit.start("flow", data)


@pytest.mark.parity
@pytest.mark.parametrize("behind", [frozenset[int](), frozenset({1}), frozenset({2, 5, 8}), frozenset({3, 4, 6, 7})])
def test_a_resumed_blueprint_makes_no_recorded_call_again(
    kit: AgentKit, losses: Losses, behind: frozenset[int]
) -> None:
    losses.begin(kit, behind)
    handle = started(kit, "OrderBlueprint", {"id": "1", "amount": 3})
    wait_until(lambda: handle.status() == "waiting" and len(set(CALLS)) == 3, "it does not wait")
    kit.runner.signal(handle.run_id, "shipped", {"broken": False})
    output = handle.result(5).output

    assert output["ids"] == ["hotel-1", "a", "b"]
    assert set(CALLS) == {"book hotel-1", "book a", "book b"}
    assert len(CALLS) <= 3 + len(behind)
    assert output["parcel"] == {"broken": False}


def test_a_blueprint_that_fails_undoes_its_calls_the_newest_first(kit: AgentKit) -> None:
    handle = started(kit, "OrderBlueprint", {"id": "1", "amount": 3})
    until(handle, "waiting")
    kit.runner.signal(handle.run_id, "shipped", {"broken": True})
    end = handle.result(5)

    assert (end.status, end.reason) == ("failed", "tool_failed")
    assert sorted(CALLS[-3:-1]) == ["cancel a", "cancel b"]
    assert CALLS[-1] == "cancel hotel-1"
    assert end.not_undone is None
    CALLS.clear()

    with pytest.raises(CallboardError, match="is a blueprint, which has no items"):
        kit.runner.repeat(Origin(run_id=handle.run_id, kind="retry", items_only=True), kit.runner.principal)
    again = kit.runner.repeat(Origin(run_id=handle.run_id, kind="retry"), kit.runner.principal)
    until(again, "waiting")
    kit.runner.signal(again.run_id, "shipped", {"broken": False})

    assert again.result(5).status == "succeeded"
    assert sorted(CALLS) == ["book a", "book b", "book hotel-1"]


@pytest.mark.parametrize(("decision", "status"), [("run_again", "succeeded"), ("fail", "failed")])
def test_code_that_calls_otherwise_than_recorded_waits_for_a_person_with_both_calls(
    kit: AgentKit, monkeypatch: pytest.MonkeyPatch, decision: str, status: str
) -> None:
    handle = started(kit, "ChangedBlueprint", {})
    until(handle, "waiting")
    monkeypatch.setattr(blueprints.ChangedBlueprint, "what", "second")
    kit.runner.signal(handle.run_id, "shipped", {})
    wait_until(lambda: bool(handle.approvals()), "it asks nothing")
    question = handle.approvals()[0]
    monkeypatch.undo()
    answer(handle, decision)
    end = handle.result(5)

    assert question["arguments"]["recorded"] == {"call": "book", "arguments": {"what": "first"}}
    assert question["arguments"]["now"] == {"call": "book", "arguments": {"what": "second"}}
    assert end.status == status
    assert CALLS == ["book first"]
    assert end.reason == ("nondeterministic_blueprint" if status == "failed" else None)


def test_a_capability_that_the_definition_does_not_list_is_refused(kit: AgentKit) -> None:
    end = started(kit, "BoundBlueprint", {}).result(5)

    assert end.status == "failed"
    assert CALLS == []


def test_a_fault_of_the_code_is_the_runs_error(kit: AgentKit) -> None:
    end = started(kit, "FaultyBlueprint", {}).result(5)

    assert (end.status, end.reason) == ("failed", "blueprint_failed")


def test_an_input_that_does_not_fit_the_model_is_refused(kit: AgentKit) -> None:
    end = started(kit, "OrderBlueprint", {"id": "1"}).result(5)

    assert end.status == "failed"
    assert CALLS == []


@pytest.mark.parametrize("typo", [True, False])
def test_a_call_whose_undoing_cannot_be_made_is_not_made_or_is_named(kit: AgentKit, typo: bool) -> None:
    end = started(kit, "ClumsyBlueprint", {"typo": typo}).result(5)

    assert end.status == "failed"
    assert ([] if typo else ["book x"]) == CALLS
    assert [left["tool"] for left in end.not_undone or []] == ([] if typo else ["book"])


def test_a_signal_that_the_definition_does_not_name_is_not_waited_for(kit: AgentKit) -> None:
    kit.workflow(blueprint=f"{blueprints.__name__}:WaitingBlueprint", signals={"shipped": {}})
    handle = kit.start("flow", {"signal": "shiped"})

    assert (handle.result(5).status, handle.result(5).reason) == ("failed", "blueprint_failed")
    [error] = [event for event in events(kit, handle) if isinstance(event, ErrorPayload)]
    assert "waits for 'shiped', which is not among the `signals:` of its definition ('shipped')" in error.message


def test_a_blueprint_takes_a_signal_by_the_name_that_its_definition_has_and_no_item(kit: AgentKit) -> None:
    kit.workflow(blueprint=f"{blueprints.__name__}:WaitingBlueprint", signals={"shipped": {"type": "integer"}})
    handle = kit.start("flow", {"signal": "shipped"})
    until(handle, "waiting")

    for name, data, code in (("shipped-1", 1, "signal_unknown"), ("shipped", "x", "signal_invalid")):
        with pytest.raises(CallboardError) as caught:
            kit.runner.signal(handle.run_id, name, data)
        assert caught.value.code == code
    kit.runner.signal(handle.run_id, "shipped", 3)

    assert handle.result(5).output == 3


@pytest.mark.parametrize(("way", "status"), [("reminded", "succeeded"), ("twice", "failed"), ("beside", "failed")])
def test_a_signal_that_a_call_has_taken_is_not_waited_for_without_end(kit: AgentKit, way: str, status: str) -> None:
    kit.workflow(blueprint=f"{blueprints.__name__}:RemindingBlueprint", signals={"shipped": {}})
    handle = kit.start("flow", {"way": way})
    until(handle, "waiting")

    kit.runner.signal(handle.run_id, "shipped", 3)

    end = handle.result(5)

    assert (end.status, end.output) == (status, 3 if status == "succeeded" else None)
    errors = [event.message for event in events(kit, handle) if isinstance(event, ErrorPayload)]
    assert [("waits for 'shipped' again" in message) for message in errors] == [True] * (status == "failed")


def test_a_blueprint_that_waits_does_not_run_the_end_of_its_code(kit: AgentKit) -> None:
    handle = started(kit, "FinallyBlueprint", {})
    until(handle, "waiting")
    assert CALLS == []

    kit.runner.signal(handle.run_id, "shipped", {"broken": False})

    assert handle.result(5).output == {"broken": False}
    assert CALLS == ["book late"]


def test_a_wait_beside_a_call_that_is_done_holds_no_worker(kit: AgentKit) -> None:
    handle = started(kit, "GatheringBlueprint", {"what": "a", "lingers": False})
    until(handle, "waiting")

    kit.runner.signal(handle.run_id, "shipped", {"broken": False})

    assert handle.result(5).output == [{"id": "a"}, {"broken": False}]
    assert CALLS == ["book a"]


def test_a_person_who_ends_a_run_for_one_of_several_calls_is_heard_before_the_failure_of_another(kit: AgentKit) -> None:
    handle = started(kit, "GatheringBlueprint", {"what": "bad", "lingers": True})

    answer(handle, "fail")

    assert handle.result(5).status == "failed"
    assert "book after" not in CALLS


@pytest.mark.parametrize(("config", "output"), [({"most": 3}, 3), ({"most": "many"}, None)])
def test_the_config_of_a_definition_has_to_fit_the_blueprints_model(
    kit: AgentKit, config: dict[str, Any], output: int | None
) -> None:
    kit.workflow(blueprint=f"{blueprints.__name__}:LimitedBlueprint", config=config)

    end = kit.start().result(5)

    assert (end.output, end.reason) == (output, None if output else "blueprint_failed")
