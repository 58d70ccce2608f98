"""What the events of a run say about the nodes, items and edges of its workflow."""

from __future__ import annotations

from typing import Any

import pytest

from tests.web.page.conftest import Module
from tests.web.page.workflows import LOOPS, Workflow, workflow

pytestmark = pytest.mark.parity

STATE = """
  const { graphState } = await import(`${page}/state/graphState.js`);
  const { nodes, edges } = graphState(argument.workflow, argument.story);
  return { nodes: Object.fromEntries(nodes), edges };
"""
ITEMS = """
  const { itemList } = await import(`${page}/state/graphState.js`);
  return itemList(argument.workflow, argument.story, argument.id);
"""
FOLD = """
  const { newStory, applyEvent } = await import(`${page}/state/story.js`);
  const story = newStory();
  argument.forEach((event, i) => applyEvent(story, { type: "node", path: [], seq: i + 1, ...event }));
  return story.nodes;
"""
WAITS = "return (await import(`${page}/state/words.js`)).waitWords(argument);"
CALLS = "return (await import(`${page}/state/graphOfCalls.js`)).graphOfCalls(argument);"
CHOICE = workflow(
    "start choose",
    "choose pay branch-0",
    "choose note default",
    "pay caught error",
    "pay end",
    "note end",
    "caught end",
)


def state(module: Module, graph: Workflow, nodes: dict[str, Any], status: str = "running") -> Any:
    """Return the nodes' states and the edges' by their two ends."""
    answer = module(STATE, {"workflow": graph, "story": {"status": status, "nodes": nodes}})
    ends = (f"{edge['source']} {edge['target']}" for edge in graph["edges"])
    return answer["nodes"], dict(zip(ends, answer["edges"], strict=True))


def done(*ids: str, **more: Any) -> dict[str, Any]:
    return {id_: {"status": "done"} for id_ in ids} | more


def test_the_chosen_branch_is_taken_and_the_other_is_dead(module: Module) -> None:
    choose = {"status": "done", "branch": "branch-0"}

    nodes, edges = state(module, CHOICE, done("start", choose=choose, pay={"status": "started"}))

    assert (nodes["pay"]["status"], nodes["note"]["status"]) == ("started", "ahead")
    assert (edges["choose pay"], edges["choose note"], edges["pay end"]) == ("taken", "dead", "ahead")


def test_the_error_edge_is_taken_by_what_failed_alone(module: Module) -> None:
    way = {"choose": {"status": "done", "branch": "branch-0"}}

    _, well = state(module, CHOICE, done("start", "pay", **way))
    _, badly = state(module, CHOICE, done("start", "caught", pay={"status": "failed"}, **way))

    assert (well["pay caught"], well["pay end"]) == ("dead", "taken")
    assert (badly["pay caught"], badly["pay end"]) == ("taken", "dead")


def test_what_is_skipped_leads_nowhere(module: Module) -> None:
    _, edges = state(module, CHOICE, {"note": {"status": "skipped"}})

    assert (edges["choose note"], edges["note end"]) == ("dead", "dead")


def test_what_was_at_work_when_the_run_ended_is_stopped(module: Module) -> None:
    nodes, edges = state(module, CHOICE, done("start", choose={"status": "waiting"}), "cancelled")

    assert (nodes["choose"]["status"], nodes["pay"]["status"]) == ("stopped", "ahead")
    assert (edges["start choose"], edges["choose pay"]) == ("taken", "dead")


def test_a_loop_counts_its_items_by_the_worst_of_their_nodes(module: Module) -> None:
    fetch = {"items": {"items/0": "done", "items/1": "done", "items/2": "failed"}}
    inner = {"items": {"items/0": "done", "items/1": "started"}}
    price = {"items": {"items/0/inner/0": "done", "items/0/inner/1": "done", "items/1/inner/0": "failed"}}
    reached = done("start", items={"status": "started"}, fetch=fetch, inner=inner, price=price)

    nodes, edges = state(module, LOOPS, reached)

    assert (nodes["items"]["counts"], nodes["items"]["seen"]) == ({"done": 1, "failed": 2}, 3)
    assert nodes["inner"]["counts"] == {"done": 2, "failed": 1}
    assert (nodes["fetch"]["status"], nodes["fetch"]["loop"], nodes["price"]["loop"]) == ("failed", "items", "inner")
    assert (edges["items fetch"], edges["fetch inner"], edges["inner keep"], edges["items end"]) == (
        "taken",
        "taken",
        "ahead",
        "ahead",
    )


def test_an_item_whose_node_may_fail_has_not_failed(module: Module) -> None:
    lenient = {**LOOPS, "nodes": [{**node, "on_error": "continue"} for node in LOOPS["nodes"]]}
    fetch = {"items": {"items/0": "failed"}}

    nodes, _ = state(module, lenient, done("start", fetch=fetch, items={"status": "started", "total": 2}))

    assert (nodes["items"]["counts"], nodes["items"]["total"]) == ({"done": 1}, 2)
    assert nodes["fetch"]["status"] == "failed"


def test_nothing_is_at_work_while_the_run_waits(module: Module) -> None:
    nodes, _ = state(module, CHOICE, done("start", choose={"status": "started"}), "waiting")

    assert nodes["choose"]["status"] == "waiting"


def test_a_body_whose_items_child_runs_worked_on_is_as_far_as_its_loop(module: Module) -> None:
    nodes, _ = state(module, LOOPS, done("start", items={"status": "done", "total": 500}))

    assert {nodes[id_]["status"] for id_ in ("fetch", "inner", "price", "keep")} == {"done"}


def test_items_that_child_runs_work_on_are_counted_as_their_loop_says(module: Module) -> None:
    items = {"status": "started", "total": 45, "counts": {"done": 36, "failed": 4}}

    nodes, _ = state(module, LOOPS, done("start", items=items))

    assert (nodes["items"]["counts"], nodes["items"]["seen"]) == ({"done": 36, "failed": 4}, 40)
    assert nodes["fetch"]["status"] == "ahead"


def test_a_body_that_no_item_came_to_is_skipped_with_its_loop(module: Module) -> None:
    nodes, _ = state(module, LOOPS, done("start", "items"))

    assert {id_ for id_, node in nodes.items() if node["status"] == "skipped"} == {"fetch", "inner", "price", "keep"}


@pytest.mark.parametrize("id_", ["items", "fetch"])
def test_failed_items_are_listed_first_and_the_others_by_number(module: Module, id_: str) -> None:
    fetch = {"items": {f"items/{number}": "failed" if number in (2, 10) else "done" for number in range(12)}}

    rows = module(ITEMS, {"workflow": LOOPS, "story": {"status": "running", "nodes": {"fetch": fetch}}, "id": id_})

    order = [int(row["scope"].removeprefix("items/")) for row in rows]
    assert order == [2, 10, 0, 1, 3, 4, 5, 6, 7, 8, 9, 11]


def test_a_story_keeps_the_last_event_of_each_node_and_item(module: Module) -> None:
    events: list[dict[str, Any]] = [
        {"node_id": "items", "status": "started", "content": "1,200 items", "at": "10:00"},
        {"node_id": "items", "status": "started", "content": "batch 0", "at": "10:01"},
        {"node_id": "items", "status": "started", "counts": {"done": 9}, "at": "10:01"},
        {"node_id": "send", "status": "started", "path": ["items", 17]},
        {"node_id": "send", "status": "done", "path": ["items", 17]},
        {"node_id": "pick", "status": "done", "branch": "default", "at": "10:02"},
    ]

    began = {"status": "started", "content": "batch 0", "startedAt": "10:00"}
    assert module(FOLD, events) == {
        "items": began | {"total": 1200, "counts": {"done": 9}},
        "send": {"items": {"items/17": "done"}},
        "pick": {"status": "done", "branch": "default", "endedAt": "10:02"},
    }


def test_a_run_that_waits_says_for_what_its_nodes_wait(module: Module) -> None:
    nodes = done("start", paid={"status": "waiting", "content": "Waits for the signal 'paid'."})

    assert module(WAITS, {"nodes": nodes}) == "Waits for the signal 'paid'."
    assert module(WAITS, {"nodes": nodes, "detail": "Waits at 'paid'."}) == "Waits at 'paid'."
    assert module(WAITS, {}) == ""


def test_the_calls_of_a_blueprint_are_drawn_in_their_order(module: Module) -> None:
    places = ["1.reserve", "2.gather/0/1.load", "2.gather/0/2.read", "2.gather/1/1.load", "3.ship"]

    drawing = module(CALLS, places)

    assert [node["label"] for node in drawing["nodes"]] == ["reserve", "load", "read", "load", "ship"]
    assert {(edge["source"], edge["target"]) for edge in drawing["edges"]} == {
        ("1.reserve", "2.gather/0/1.load"),
        ("1.reserve", "2.gather/1/1.load"),
        ("2.gather/0/1.load", "2.gather/0/2.read"),
        ("2.gather/0/2.read", "3.ship"),
        ("2.gather/1/1.load", "3.ship"),
    }
