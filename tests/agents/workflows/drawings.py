"""Random drawings of workflows: every node type, branches, joins, bodies in bodies, and each way to fail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

TYPES = (
    "TRANSFORM FUNCTION LLM CHOICE CHOICE_LLM SUB_WORKFLOW PARALLEL WAIT APPROVAL_GATE FOR_EACH FILTER REDUCE"
).split()
CHOICES = ["red", "green", "blue"]
MAY_FAIL = ("TRANSFORM", "FUNCTION", "LLM", "APPROVAL_GATE", "FILTER", "REDUCE", "FOR_EACH", "SUB_WORKFLOW", "CHOICE")


@dataclass(kw_only=True)
class Drawing:
    """The nodes and edges of a workflow's file."""

    nodes: list[dict[str, Any]] = field(default_factory=list)
    edges: list[dict[str, str]] = field(default_factory=list)
    above: dict[str, set[str]] = field(default_factory=lambda: {"start": set()})
    """The nodes that lead to each."""

    def node(self, node_id: str, kind: str, on_error: str = "fail", **config: Any) -> str:
        self.nodes.append({"id": node_id, "type": kind, "config": config, "on_error": on_error})
        return node_id

    def edge(self, source: str, target: str, handle: str = "") -> None:
        edge = {"source": source, "target": target} | ({"source_handle": handle} if handle else {})
        if edge not in self.edges:
            self.edges.append(edge)

    def leaves(self, node_id: str, handle: str) -> bool:
        return any(edge["source"] == node_id and edge.get("source_handle", "") == handle for edge in self.edges)


@st.composite
def drawings(draw: st.DrawFn) -> Drawing:
    """A workflow whose input is ``{"n": number}``."""
    drawing = Drawing()
    drawing.node("start", "START")
    members = _scope(draw, drawing, "n", ["start"], depth=0)
    drawing.node("end", "END")
    _close(drawing, ["start", *members], "end")
    return drawing


def _scope(draw: st.DrawFn, drawing: Drawing, prefix: str, entries: list[str], *, depth: int) -> list[str]:
    """Draw the nodes of a scope behind those that it begins with, and return their ids."""
    before, members = list(entries), list[str]()
    for number in range(draw(st.integers(1, 5 if depth == 0 else 2))):
        node_id = f"{prefix}{number}"
        kinds = [kind for kind in TYPES if depth < 2 or kind != "FOR_EACH"]
        kind = draw(st.sampled_from(kinds))
        on_error = draw(st.sampled_from(["fail", "continue", "continue", "branch"])) if kind in MAY_FAIL else "fail"
        if kind in ("APPROVAL_GATE", "CHOICE") and on_error == "continue":
            on_error = "branch"
        sources = ["{{ input.n }}", 2, 5, *([] if depth == 0 else ["{{ item }}", "{{ index }}"])]
        parents = draw(st.lists(st.sampled_from(before), min_size=1, max_size=2, unique=True))
        drawing.above[node_id] = above = set().union(*({parent, *drawing.above[parent]} for parent in parents))
        sources += [f"{{{{ nodes.{other} }}}}" for other in sorted(above)]
        drawing.node(node_id, kind, on_error, **_config(draw, kind, node_id, sources))
        for parent in parents:
            _connect(draw, drawing, parent, node_id)
        if kind == "FOR_EACH":
            _body(draw, drawing, node_id, depth)
        before.append(node_id)
        members.append(node_id)
    return members


def _body(draw: st.DrawFn, drawing: Drawing, node_id: str, depth: int) -> None:
    first = drawing.node(f"{node_id}_f", "TRANSFORM", output="{{ item }}")
    drawing.edge(node_id, first, "foreach-body")
    drawing.above[first] = set(drawing.above[node_id])
    members = _scope(draw, drawing, f"{node_id}_", [first], depth=depth + 1)
    last = drawing.node(f"{node_id}_z", "TRANSFORM", output="{{ index }}")
    _close(drawing, [first, *members], last)


def _connect(draw: st.DrawFn, drawing: Drawing, parent: str, node_id: str) -> None:
    """Draw an edge from a node, by one of the handles that it has."""
    node = next(node for node in drawing.nodes if node["id"] == parent)
    handles = _handles(node)
    if node["type"] == "PARALLEL":
        number = sum(edge["source"] == parent for edge in drawing.edges)
        handles = [f"parallel-{number}"]
    drawing.edge(parent, node_id, draw(st.sampled_from(handles)))


def _handles(node: dict[str, Any]) -> list[str]:
    chosen = {"CHOICE": ["branch-0", "default"], "CHOICE_LLM": ["branch-0", "branch-1", "branch-2", "default"]}
    handles = chosen.get(node["type"], [""])
    return [*handles, "error"] if node["on_error"] == "branch" else handles


def _close(drawing: Drawing, members: Sequence[str], last: str) -> None:
    """Let every branch that leads nowhere lead to the last node."""
    for node in [node for node in drawing.nodes if node["id"] in members]:
        for handle in _handles(node):
            is_parallel = node["type"] == "PARALLEL"
            leads = any(edge["source"] == node["id"] for edge in drawing.edges) if is_parallel else False
            if not leads and not drawing.leaves(node["id"], handle):
                drawing.edge(node["id"], last, "parallel-0" if is_parallel else handle)


def _config(draw: st.DrawFn, kind: str, node_id: str, sources: list[Any]) -> dict[str, Any]:
    value = draw(st.sampled_from(sources))
    number = draw(st.sampled_from([source for source in sources if source in ("{{ input.n }}", "{{ index }}")]))
    match kind:
        case "TRANSFORM":
            return {"output": value}
        case "FUNCTION":
            return {"tool": "add", "arguments": {"a": value, "b": draw(st.integers(0, 4))}}
        case "LLM":
            return {"prompt": number}
        case "CHOICE":
            paths = [source[3:-3] for source in sources if isinstance(source, str)]
            return {"branches": [{"field": draw(st.sampled_from(paths)), "operator": ">", "value": 3}]}
        case "CHOICE_LLM":
            return {"prompt": number, "choices": CHOICES}
        case "SUB_WORKFLOW":
            return {"workflow": "double", "input": {"n": value}}
        case "PARALLEL":
            return {}
        case "WAIT":
            return draw(st.sampled_from([{"seconds": 0.01}, {"signal": f"signal_{node_id}"}]))
        case "APPROVAL_GATE":
            return {"message": f"May {node_id}?"}
        case "FOR_EACH":
            items = draw(st.sampled_from([value, [1, 2, 3], [7], []]))
            return {"items": items, "on_item_error": draw(st.sampled_from(["fail", "collect", "collect"]))}
        case "FILTER":
            return {"items": draw(st.sampled_from([value, [1, 2, 3, 4]])), "condition": "item > 2"}
        case _:
            return {"items": draw(st.sampled_from([value, [1, 2, 3]])), "reducer": "sum"}
