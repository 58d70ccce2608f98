"""One walk through a scope as its nodes see it: where it is, and what they may read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from config.definitions.workflows.graph import Graph

Path = tuple[str | int, ...]
"""Where a scope is: the FOR_EACH nodes around it, each with the index of its item."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeOutput:
    """What a node has come to."""

    value: Any = None
    branch: str | None = None
    """The handle of the edges that are followed, where the node has chosen; None: its type says."""
    labels: frozenset[str] = frozenset()
    """What is known of the value, besides what the node has read."""
    note: str | None = None
    """What is unusual about it, as a sentence."""


@dataclass(kw_only=True, slots=True)
class ScopeState:
    """The results of one walk."""

    scope_id: str
    path: Path = ()
    item: Any = None
    index: int | None = None
    """None: the whole graph."""
    around: ScopeState | None = None
    """The walk whose FOR_EACH began this one."""
    labels_of_item: frozenset[str] = frozenset()
    outputs: dict[str, Any] = field(default_factory=dict)
    labels: dict[str, frozenset[str]] = field(default_factory=dict)
    followed: set[int] = field(default_factory=set)
    """The numbers of the edges that were followed."""

    def output(self, node_id: str) -> tuple[bool, Any]:
        """Return whether a node of this walk, or of one around it, has an output, and the output."""
        state: ScopeState | None = self
        while state is not None:
            if node_id in state.outputs:
                return True, state.outputs[node_id]
            state = state.around
        return False, None

    def labels_of(self, node_id: str) -> frozenset[str]:
        """Return the labels of a node's output."""
        state: ScopeState | None = self
        while state is not None:
            if node_id in state.labels:
                return state.labels[node_id]
            state = state.around
        return frozenset()

    def local(self) -> Mapping[str, Any]:
        """Return the names that a body has besides: its item and the item's index."""
        return {} if self.index is None else {"item": self.item, "index": self.index}


def written(path: Path, node_id: str = "") -> str:
    """Return a path as steps have it: ``items/17/charge``."""
    return "/".join(str(part) for part in ((*path, node_id) if node_id else path))


def outputs_of(graph: Graph, state: ScopeState) -> Any:
    """Return what a scope has come to: the output of its last node, or of each by its id where there are several.

    The last ones are those behind which no edge was followed, be they an END or not.
    """
    nodes = graph.scopes[state.scope_id].nodes
    leading = {edge.source for edge in graph.edges if edge.number in state.followed and edge.target in nodes}
    last = [node_id for node_id in nodes if node_id in state.outputs and node_id not in leading]
    if len(last) == 1:
        return state.outputs[last[0]]
    return {node_id: state.outputs[node_id] for node_id in last}
