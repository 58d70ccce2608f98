"""Lists: limits, failed items, spread over child runs, and retries."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from sqlalchemy import update

from agents.testing import AgentKit
from agents.tools.tool import tool
from agents.workflows.calls.handler import MAX_ITEMS
from bus.journal.clients import Origin
from bus.payloads import ChildPayload, ErrorPayload, NodePayload
from config.database.tables import steps
from tests.agents.workflows.conftest import Losses
from tests.agents.workflows.flows import END, START, edges, events, node, results, states, until, wait_until

CALLS: list[Any] = []
"""The items that the tools have worked on."""
BROKEN: set[Any] = set()
"""The items that fail now."""


@tool(effect="idempotent", retries=0)
def double(n: int) -> int:
    """Double a number."""
    CALLS.append(n)
    if n in BROKEN:
        raise ValueError("broken")
    return 2 * n


@pytest.fixture(autouse=True)
def _fresh() -> None:
    CALLS.clear()
    BROKEN.clear()


def doubling(**config: Any) -> dict[str, Any]:
    each = node("each", "FOR_EACH", items="{{ input.numbers }}", **config)
    nodes = [START, each, node("one", "FUNCTION", tool="double", arguments={"n": "{{ item }}"}), END]
    return {"nodes": nodes, "edges": edges("start each", "each one foreach-body", "each end")}


def test_results_are_in_the_order_of_the_items_and_no_more_than_at_once_run(kit: AgentKit) -> None:
    lock, at_once = threading.Lock(), [0, 0]

    @tool(effect="pure")
    def slow(n: int) -> int:
        """Take longer for smaller numbers."""
        with lock:
            at_once[0] += 1
            at_once[1] = max(at_once)
        threading.Event().wait(0.03 - n / 1000)
        with lock:
            at_once[0] -= 1
        return n

    fields = doubling(at_once=4)
    fields["nodes"][2]["config"]["tool"] = "slow"
    kit.workflow(tools=[slow], **fields)

    assert kit.start("flow", {"numbers": list(range(20))}).result(10).output == list(range(20))
    assert 1 < at_once[1] <= 4


def test_an_empty_list_gives_an_empty_list(kit: AgentKit) -> None:
    kit.workflow(tools=[double], **doubling())

    assert kit.start("flow", {"numbers": []}).result(5).output == []


def test_a_list_that_is_too_long_is_refused_with_the_remedy(kit: AgentKit) -> None:
    @tool(effect="pure")
    def numbers() -> Any:
        """Return more items than a node works on."""
        return [0] * (MAX_ITEMS + 1)

    fields = doubling()
    fields["nodes"].insert(1, node("all", "FUNCTION", tool="numbers"))
    fields["nodes"][2]["config"]["items"] = "{{ nodes.all }}"
    fields["edges"] = edges("start all", "all each", "each one foreach-body", "each end")
    kit.workflow(tools=[double, numbers], **fields)

    handle = kit.start("flow", {})

    assert handle.result(10).reason == "items_refused"
    (error,) = [event for event in events(kit, handle) if isinstance(event, ErrorPayload)]
    assert error.message == (
        "node 'each' needs a list of at most 100,000 items, and this has 100,001; split it over several runs."
    )
    assert CALLS == []


def test_an_item_that_fails_ends_the_run_or_is_collected(kit: AgentKit) -> None:
    BROKEN.add(2)
    kit.workflow("fails", tools=[double], **doubling())
    kit.workflow("collects", tools=[double], **doubling(on_item_error="collect"))

    assert kit.start("fails", {"numbers": [1, 2, 3]}).result(5).status == "failed"
    first, failed, third = kit.start("collects", {"numbers": [1, 2, 3]}).result(5).output

    assert (first, third) == (2, 6)
    assert failed["error"]["code"] == "tool_failed"


def test_failed_items_alone_are_made_again_and_the_others_keep_their_results(kit: AgentKit) -> None:
    BROKEN.update({2, 4})
    kit.workflow(tools=[double], **doubling(on_item_error="collect"))
    handle = kit.start("flow", {"numbers": [1, 2, 3, 4]})
    assert handle.result(5).status == "succeeded"
    CALLS.clear()
    BROKEN.clear()

    again = kit.runner.repeat(Origin(run_id=handle.run_id, kind="retry", items_only=True), kit.runner.principal)

    assert again.result(5).output == [2, 4, 6, 8]
    assert sorted(CALLS) == [2, 4]


def test_a_retry_takes_what_is_done_from_the_record(kit: AgentKit) -> None:
    BROKEN.add(3)
    kit.workflow(tools=[double], **doubling(at_once=1))
    handle = kit.start("flow", {"numbers": [1, 2, 3, 4]})
    assert handle.result(5).status == "failed"
    CALLS.clear()
    BROKEN.clear()

    again = kit.runner.repeat(Origin(run_id=handle.run_id, kind="retry"), kit.runner.principal)

    assert again.result(5).output == [2, 4, 6, 8]
    assert CALLS == [3, 4]


def test_a_list_is_spread_over_child_runs(kit: AgentKit) -> None:
    kit.workflow(tools=[double], **doubling(spread=3))

    handle = kit.start("flow", {"numbers": list(range(8))})

    assert handle.result(10).output == [2 * n for n in range(8)]
    assert sorted(CALLS) == list(range(8))
    assert sum(isinstance(event, ChildPayload) and event.status == "queued" for event in events(kit, handle)) == 3
    counts = [event.counts for event in events(kit, handle) if isinstance(event, NodePayload) and event.counts]
    assert (len(counts), counts[-1]) == (3, {"done": 8})


@pytest.mark.parametrize("spread", [0, 2])
def test_a_result_that_looks_like_an_error_is_none(kit: AgentKit, spread: int) -> None:
    @tool(effect="idempotent", retries=0)
    def looks(n: int) -> dict[str, Any]:
        """Return what looks like an error, or fail."""
        CALLS.append(n)
        if n in BROKEN:
            raise ValueError("broken")
        return {"error": {"code": "tool_failed", "message": str(n)}}

    BROKEN.add(3)
    fields = doubling(on_item_error="collect", spread=spread)
    fields["nodes"][2]["config"]["tool"] = "looks"
    kit.workflow(tools=[looks], output={"type": "array"}, **fields)
    handle = kit.start("flow", {"numbers": [1, 2, 3]})

    first = handle.result(10).output
    statuses = {path: status for path, (status, _) in results(kit, handle).items()}
    CALLS.clear()
    BROKEN.clear()
    again = kit.runner.repeat(Origin(run_id=handle.run_id, kind="retry", items_only=True), kit.runner.principal)

    assert "broken" in first[2]["error"]["message"]
    assert [statuses[f"each/{n}"] for n in range(3)] == ["done", "done", "failed"]
    assert again.result(10).output[2] == {"error": {"code": "tool_failed", "message": "3"}}
    assert CALLS == [3]


@pytest.mark.parametrize("spread", [None, 3])
def test_items_that_are_done_are_not_worked_on_again_after_losses(
    kit: AgentKit, losses: Losses, spread: int | None
) -> None:
    kit.workflow(tools=[double], **doubling(at_once=2, **({"spread": spread} if spread else {})))
    losses.begin(kit, frozenset({3, 6, 9, 12}))

    handle = kit.start("flow", {"numbers": list(range(10))})

    assert handle.result(10).output == [2 * n for n in range(10)]
    assert len(CALLS) <= 10 + 2 * 4


def test_a_stop_begins_no_further_item(kit: AgentKit) -> None:
    begun = threading.Event()

    @tool(effect="pure")
    def waits(n: int) -> int:
        """Take a while."""
        begun.set()
        CALLS.append(n)
        threading.Event().wait(0.05)
        return n

    fields = doubling(at_once=2)
    fields["nodes"][2]["config"]["tool"] = "waits"
    kit.workflow(tools=[waits], **fields)
    handle = kit.start("flow", {"numbers": list(range(100))})
    wait_until(begun.is_set, "no item has begun")
    handle.cancel()

    assert handle.result(5).status == "cancelled"
    assert len(CALLS) < 20
    assert states(kit, handle)["each"] != "done"


def test_a_list_that_has_changed_since_its_node_began_fails_it(kit: AgentKit) -> None:
    nodes = [START, node("each", "FOR_EACH", items=["a"]), node("w", "WAIT", signal="paid"), END]
    kit.workflow(nodes=nodes, edges=edges("start each", "each w foreach-body", "each end"))
    handle = kit.start()
    until(handle, "waiting")

    with kit.runner.journal.database.write() as connection:
        connection.execute(update(steps).where(steps.c.node == "each").values(arguments_digest="another"))
    kit.runner.signal(handle.run_id, "paid-0", None)

    assert handle.result(5).reason == "items_changed"
