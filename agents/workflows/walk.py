"""Which nodes of one scope come next: a function of the results so far, without input or output.

An edge is followed or dead once its source has a result. A node is ready when all edges to it are decided and one is
followed; where all are dead, it is skipped, and so are the edges that leave it. So a node with several incoming edges
waits for those that can still be followed, and dead paths hold nothing up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from config.definitions.workflows.graph import BODY, Graph


@dataclass(frozen=True, kw_only=True, slots=True)
class Following:
    """What a result decides."""

    ready: tuple[str, ...] = ()
    """The nodes that begin, in the order of the scope."""
    skipped: tuple[str, ...] = ()
    """The nodes that no path leads to any more."""


class Walk:
    """One walk through a scope of a graph, breadth first."""

    def __init__(self, graph: Graph, scope_id: str) -> None:
        scope = graph.scopes[scope_id]
        self._graph, self._scope = graph, scope
        self._order = {node_id: number for number, node_id in enumerate(scope.nodes)}
        self._undecided = {node_id: sum(1 for _ in self._inner(node_id)) for node_id in scope.nodes}
        self._reached = dict.fromkeys(scope.entries, True)
        self._settled: set[str] = set()

    def _inner(self, node_id: str) -> Iterable[str]:
        """Yield the sources of the edges to a node within the scope."""
        for edge in self._graph.into[node_id]:
            if edge.handle != BODY and edge.source in self._order:
                yield edge.source

    def begin(self) -> Following:
        """Return the nodes with which the walk begins."""
        ready = [node_id for node_id in self._scope.entries if self._undecided[node_id] == 0]
        return Following(ready=tuple(sorted(ready, key=self._order.__getitem__)))

    def settle(self, node_id: str, handles: frozenset[str]) -> Following:
        """Return what follows when a node's outcome follows its edges with these handles."""
        ready: list[str] = []
        skipped: list[str] = []
        waiting = [(node_id, handles)]
        while waiting:
            source, followed = waiting.pop(0)
            self._settled.add(source)
            for edge in self._graph.out[source]:
                target = edge.target
                if edge.handle == BODY or target not in self._order:
                    continue
                self._undecided[target] -= 1
                self._reached[target] = self._reached.get(target, False) or edge.handle in followed
                if self._undecided[target] == 0 and self._reached[target]:
                    ready.append(target)
                elif self._undecided[target] == 0:
                    skipped.append(target)
                    waiting.append((target, frozenset()))
        return Following(ready=tuple(sorted(ready, key=self._order.__getitem__)), skipped=tuple(skipped))

    @property
    def is_over(self) -> bool:
        """Whether every node has a result or was skipped."""
        return len(self._settled) == len(self._order)
