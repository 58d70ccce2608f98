"""A workflow's graph as text: each node on a line of its own, with rails that say what leads where."""

from __future__ import annotations

from typing import Any

import pytest

from cli.output.drawing import NODE, drawn, graph_lines
from config.definitions.loading import definition_of
from config.definitions.workflows.fields import WorkflowDefinition
from config.definitions.workflows.graph import TOP


def workflow(*edges: str, **types: str) -> WorkflowDefinition:
    """Return a workflow with these edges, ``source target handle``; nodes without a type pass their input on."""
    parts = [edge.split() for edge in edges]
    ids = list(dict.fromkeys(node_id for source, target, *_ in parts for node_id in (source, target)))
    configs: dict[str, Any] = {"FOR_EACH": {"items": [1]}, "TRANSFORM": {"output": 1}}
    kinds = {"start": "START", "end": "END"} | types
    nodes = [{"id": node_id, "type": kinds.get(node_id, "TRANSFORM")} for node_id in ids]
    nodes = [node | {"config": configs.get(node["type"], {})} for node in nodes]
    drawn_edges = [dict(zip(("source", "target", "source_handle"), part, strict=False)) for part in parts]
    definition = definition_of("drawn", {"name": "Drawn", "nodes": nodes, "edges": drawn_edges})
    assert isinstance(definition, WorkflowDefinition)
    return definition


def lines_of(definition: WorkflowDefinition) -> list[str]:
    """Return the drawing with the ids of the nodes behind the rails."""
    return [f"{rails} {node_id or ''}".rstrip() for rails, node_id in drawn(definition.graph, TOP)]


def test_branches_have_rails_that_end_where_they_meet() -> None:
    definition = workflow("start a", "start b", "start c", "a end", "b d", "d end", "c d")

    assert lines_of(definition) == [
        "○ start",
        "├─┬─╮",
        "○ │ │ a",
        "│ ○ │ b",
        "│ │ ○ c",
        "│ ├─╯",
        "│ ○ d",
        "├─╯",
        "○ end",
    ]


def test_a_rail_is_passed_over_and_a_free_column_is_used_again() -> None:
    definition = workflow("start a", "start b", "start c", "a end", "b x", "b y", "c y", "x end", "y end")

    assert lines_of(definition) == [
        "○ start",
        "├─┬─╮",
        "○ │ │ a",
        "│ ○ │ b",
        "│ ├─│─╮",
        "│ │ ○ │ c",
        "│ ○ │ │ x",
        "│ │ ├─╯",
        "│ │ ○ y",
        "├─┴─╯",
        "○ end",
    ]


def test_the_body_of_a_loop_stands_below_it_behind_a_rail_of_its_own() -> None:
    definition = workflow(
        "start all",
        "all a foreach-body",
        "a b",
        "a inner",
        "inner c foreach-body",
        "all end",
        all="FOR_EACH",
        inner="FOR_EACH",
    )

    assert lines_of(definition) == [
        "○ start",
        "○ all",
        "│ ┊ ○ a",
        "│ ┊ ├─╮",
        "│ ┊ ○ │ b",
        "│ ┊   ○ inner",
        "│ ┊     ┊ ○ c",
        "○ end",
    ]


@pytest.mark.parametrize("wide", [20, 3])
def test_sixty_nodes_are_sixty_lines_of_eighty_columns(wide: int) -> None:
    edges = [f"start n{number}" for number in range(wide)]
    edges += [f"n{number} n{number + wide}" for number in range(58 - wide)]
    edges += [f"n{number} end" for number in range(58 - wide, 58)]

    lines = list(graph_lines(workflow(*edges)))

    assert sum(NODE in line for line in lines) == 60
    assert max(map(len, lines)) <= 80
