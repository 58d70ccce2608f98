"""Workflows of reference: one graph with every type of node, and sagas; and all scenarios of the sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from tests.agents.workflows.flows import chain, edges, node
from tests.model_server import Turn
from tests.reference_runs import REFERENCE_RUNS, ReferenceRun

TOOLS = "tests.soak.tools"
CHILD = f"reference-{len(REFERENCE_RUNS)}"
"""The workflow that another one starts, the first of these."""


def _calling(node_id: str, tool: str, undone_by: str = "", **more: Any) -> dict[str, Any]:
    """Return a node that calls a tool, and is undone by another one's call."""
    undoing = {"tool": f"{TOOLS}:{undone_by}", "arguments": {"value": "no {{ result }}"}}
    more |= {"compensate": undoing} if undone_by else {}
    value = more.pop("value", node_id)
    return node(node_id, "FUNCTION", more, tool=f"{TOOLS}:{tool}", arguments={"value": value})


def _workflow(fields: Mapping[str, Any], **its: Any) -> ReferenceRun:
    return ReferenceRun(respond=_answer, more=yaml.safe_dump(dict(fields)), workflow_input={"n": 2}, **its)


def _answer(body: Mapping[str, Any]) -> Turn:
    is_choice = "Choose the one of these" in str(body["messages"][-1]["content"])
    return Turn(text='{"choice": "second"}' if is_choice else "Hello to you.")


NODES = [
    node("start", "START"),
    node("note", "TRANSFORM", output="{{ input.n }} pieces"),
    node("ask", "LLM", prompt="Say hello to {{ nodes.note }}."),
    node("sort", "CHOICE_LLM", prompt="{{ nodes.ask }}", choices=["first", "second"]),
    node("large", "CHOICE", branches=[{"condition": "input.n > 1"}]),
    _calling("pay", "pay"),
    node("both", "PARALLEL"),
    _calling("left", "order"),
    node("right", "WAIT", signal="paid"),
    node("gate", "APPROVAL_GATE", message="Pay the others?"),
    node("each", "FOR_EACH", items=["a", "b"], at_once=1),
    _calling("item", "pay", value="{{ item }}"),
    node("some", "FILTER", items="{{ nodes.each }}", condition="item != 'pay a done'"),
    node("all", "REDUCE", items="{{ nodes.some }}", reducer="concat"),
    node("sub", "SUB_WORKFLOW", workflow=CHILD, input={"n": 1}),
    node("nap", "WAIT", seconds=0.05),
    node("other", "TRANSFORM", output="nothing"),
    node("end", "END", output={"paid": "{{ nodes.right }}", "all": "{{ nodes.all }}", "sub": "{{ nodes.sub }}"}),
]
EDGES = edges(
    *("start note", "note ask", "ask sort", "sort other branch-0", "sort large branch-1", "sort other default"),
    *("large pay branch-0", "large other default", "pay both", "both left parallel-0", "both right parallel-1"),
    *("left gate", "right gate", "gate each", "each item foreach-body", "each some", "some all", "all sub", "sub nap"),
    *("nap end", "other end"),
)


def _trip(last: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return a workflow whose calls are undone by calls of each effect."""
    calls = [_calling("a", "pay", "send"), _calling("b", "send", "pay"), _calling("c", "put", "order")]
    return chain(*calls, _calling("d", "order"), *last)


LISTED = [f"{TOOLS}:{name}" for name in ("pay", "send", "put", "refuse")]
REFERENCE_WORKFLOWS: dict[str, ReferenceRun] = {
    "called workflow": _workflow(chain(_calling("tell", "send")), output="send tell done"),
    "every node": _workflow(
        {"nodes": NODES, "edges": EDGES},
        signals={"paid": 5},
        output={"paid": 5, "all": "pay b done", "sub": "send tell done"},
    ),
    "list over child runs": _workflow(
        {
            "nodes": [
                NODES[0],
                node("each", "FOR_EACH", items=["a", "b"], spread=2),
                NODES[11],
                node("end", "END"),
            ],
            "edges": edges("start each", "each item foreach-body", "each end"),
        },
        output=["pay a done", "pay b done"],
    ),
    "saga": _workflow(_trip([_calling("e", "refuse")])),
    "stopped saga": _workflow(_trip([node("wait", "WAIT", signal="never")])),
    "blueprint's saga": _workflow({"blueprint": "tests.soak.blueprints:Trip", "tools": LISTED}),
}
SCENARIOS = REFERENCE_RUNS | REFERENCE_WORKFLOWS
