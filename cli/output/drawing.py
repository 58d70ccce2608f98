"""A workflow's graph as text: a line a node, from layer to layer, with a rail for each edge that passes it.

The rails are drawn as `git log --graph` draws them, so that a graph of any size is as wide as its widest place. Beside
each node stands by which handles it is reached. The body of a FOR_EACH is drawn below it, behind a rail of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from textwrap import wrap

import click

from cli.output.quoted import INDENT, columns, fit
from config.definitions.workflows.fields import WorkflowDefinition
from config.definitions.workflows.graph import BODY, NEXT, TOP, Edge, Graph
from config.definitions.workflows.node_configs import ChoiceConfig, ChoiceLLMConfig
from config.text.visible import visible

NODE, RAIL, GAP, BODY_RAIL = "○", "│", " ", "┊ "
COLUMNS = 80
"""Of a terminal whose width is unknown, and of a pipe."""


@dataclass(slots=True)
class _Rails:
    """The columns of one scope's drawing: each has the node that its edge leads to, or none."""

    targets: list[str | None] = field(default_factory=list)

    def leading_to(self, node_id: str) -> list[int]:
        """Return the columns whose edges lead to a node; a new one where there are none, as for the first node."""
        columns = [column for column, target in enumerate(self.targets) if target == node_id]
        return columns or [self.free(0)]

    def free(self, first: int) -> int:
        """Return the first column that no edge has, from ``first`` on; it is added where there is none."""
        for column in range(first, len(self.targets)):
            if self.targets[column] is None:
                return column
        self.targets.append(None)
        return len(self.targets) - 1

    def line(self, marks: Mapping[int, str], joined: tuple[int, int] | None = None) -> str:
        """Return a line: a rail for each edge, other ``marks`` in their columns, and a bar through the ``joined``."""
        first, last = joined or (0, -1)
        text = ""
        for column in range(max(len(self.targets), last + 1)):
            is_inside = first <= column < last
            empty = "─" if first < column < last else GAP
            text += marks.get(column, RAIL if column < len(self.targets) and self.targets[column] else empty)
            text += "─" if is_inside else GAP
        return text.rstrip()


def drawn(graph: Graph, scope_id: str) -> Iterator[tuple[str, str | None]]:
    """Yield the lines of a scope: the rails, and the node that stands beside them; None: a line of rails alone."""
    scope, rails = graph.scopes[scope_id], _Rails()
    inside = frozenset(scope.nodes)
    for node_id in scope.nodes:
        columns = rails.leading_to(node_id)
        if len(columns) > 1:
            yield rails.line(_corners(columns, "├", "┴", "╯"), (columns[0], columns[-1])), None
        for column in columns:
            rails.targets[column] = None
        yield rails.line({columns[0]: NODE}), node_id
        targets = list(
            dict.fromkeys(edge.target for edge in graph.out[node_id] if edge.target in inside and edge.handle != BODY)
        )
        if node_id in graph.scopes:
            rails.targets[columns[0]] = targets[0] if targets else None
            for line, inner in drawn(graph, node_id):
                yield f"{rails.line({}):<{2 * len(rails.targets)}}{BODY_RAIL}{line}", inner
        yield from _fork(rails, columns[0], targets)


def _fork(rails: _Rails, column: int, targets: list[str]) -> Iterator[tuple[str, str | None]]:
    """Begin a rail for each target, in the node's column and in free ones behind it."""
    rails.targets[column] = targets[0] if targets else None
    begun = [column]
    for target in targets[1:]:
        begun.append(rails.free(column + 1))
        rails.targets[begun[-1]] = target
    if len(begun) > 1:
        begun.sort()
        yield rails.line(_corners(begun, "├", "┬", "╮"), (begun[0], begun[-1])), None


def _corners(columns: list[int], first: str, middle: str, last: str) -> dict[int, str]:
    return {columns[0]: first, **dict.fromkeys(columns[1:-1], middle), columns[-1]: last}


# --- with what stands beside the rails


def graph_lines(definition: WorkflowDefinition) -> Iterator[str]:
    """Yield the lines of a workflow's drawing: rails, the nodes beside them, and by which handle each is reached."""
    yield from head_lines(definition)
    if definition.blueprint is not None:
        yield f"The blueprint {definition.blueprint} has no drawing; its steps follow from its code."
        return
    rows = list(drawn(definition.graph, TOP))
    rails_width = max(len(rails) for rails, _ in rows)
    width = max(len(node.id) for node in definition.nodes)
    for rails, node_id in rows:
        if node_id is None:
            yield rails
            continue
        node = definition.node(node_id)
        beside = f"{node_id:<{width}}  {node.type:<13}  {_reached(definition, node_id)}"
        yield fitting(f"{rails:<{rails_width}}  {beside}")


def head_lines(definition: WorkflowDefinition) -> Iterator[str]:
    """Yield a workflow's name and description."""
    yield click.style(f"{visible(definition.name)} ({definition.id})", bold=True)
    width = (columns() or COLUMNS) - len(INDENT)
    for line in definition.description.splitlines():
        yield from (f"{INDENT}{part}" for part in wrap(visible(line), width))
    yield ""


def fitting(line: str) -> str:
    """Return a line as much of it as the terminal is wide."""
    return fit(line.rstrip(), columns() or COLUMNS)


def _reached(definition: WorkflowDefinition, node_id: str) -> str:
    """Return by which handles a node is reached; of several sources, with each of them."""
    graph: Graph = definition.graph
    edges = [edge for edge in graph.into[node_id] if edge.source != node_id]
    named = [(edge, handle_words(definition, edge)) for edge in edges if edge.handle not in (NEXT, BODY)]
    is_plain = len({edge.source for edge in edges}) == 1
    texts = (text if is_plain else f"{edge.source}: {text}" for edge, text in named)
    return visible(", ".join(texts))


def handle_words(definition: WorkflowDefinition, edge: Edge) -> str:
    """Return an edge's handle, and what it stands for: a choice's name, or a condition."""
    settings, (kind, _, number) = definition.node(edge.source).settings, edge.handle.partition("-")
    if kind != "branch" or not number.isdecimal():
        return edge.handle
    if isinstance(settings, ChoiceLLMConfig):
        return f"{edge.handle} ({settings.choices[int(number)].name})"
    condition = settings.branches_[int(number)].condition if isinstance(settings, ChoiceConfig) else None
    return f"{edge.handle} ({condition})" if condition else edge.handle
