"""Which nodes of a workflow a retry makes again: those that failed, and all that follows from them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from config.definitions.workflows.fields import WorkflowDefinition
from config.definitions.workflows.graph import BODY, COMPENSATION, TOP, Graph

Step = Mapping[str, Any]


def redo_of(
    definition: WorkflowDefinition,
    before: WorkflowDefinition | None,
    steps: Iterable[Step],
    *,
    items_only: bool = False,
) -> frozenset[str]:
    """Return the paths of the steps that a retry makes again; everything else is taken from the record.

    ``before``: the definition that the run had; a node that was changed since is made again too. ``items_only``: of
    what has failed, the items of FOR_EACH alone are.
    """
    newest = _newest(step for step in steps if step["node"] is not None and not step["node"].startswith("~"))
    redo = _Redo(definition.graph, newest)
    changed, bodies = _changed(definition, before), _changed_bodies(definition, before)
    for path, step in newest.items():
        is_undone = path.endswith(COMPENSATION) and step["status"] == "done"
        is_failed = not path.endswith(COMPENSATION) and step["status"] != "done"
        if is_failed and items_only and not _is_in_failed_item(path, newest):
            continue
        if is_undone or is_failed:
            redo.add(path.removesuffix(COMPENSATION))
        elif path.rpartition("/")[2] in changed:
            redo.add(path, with_items=True)
        elif _loop_of(path) in bodies:  # its other nodes stay
            redo.add(path)
    return frozenset(redo.paths)


def _is_in_failed_item(path: str, newest: Mapping[str, Step]) -> bool:
    """Return whether a node that failed is an item, or in one whose outcome that was: its edges may have led on."""
    parts = path.split("/")
    number = max((i for i, part in enumerate(parts) if part.isdecimal()), default=None)
    if number is None:
        return False
    item = newest.get("/".join(parts[: number + 1]))
    return item is None or item["status"] != "done"


def _loop_of(path: str) -> str:
    """Return the FOR_EACH of a path that is an item's; empty for a node's."""
    scope, _, name = path.rpartition("/")
    return scope.rpartition("/")[2] if name.isdecimal() else ""


def _newest(steps: Iterable[Step]) -> Mapping[str, Step]:
    """Return the newest step of each path: an earlier one is that of an attempt, or of the call before a failure."""
    return {step["node"]: step for step in steps}


def _changed(definition: WorkflowDefinition, before: WorkflowDefinition | None) -> set[str]:
    """Return the nodes that are not as they were, or that other nodes lead to now."""
    if before is None or before.digest == definition.digest:
        return set()
    graph, old = definition.graph, before.graph
    written = {node_id: _written(definition, node_id) for node_id in graph.nodes}
    return {
        node_id
        for node_id in graph.nodes
        if node_id not in old.nodes
        or written[node_id] != _written(before, node_id)
        or {(edge.source, edge.handle) for edge in graph.into[node_id]}
        != {(edge.source, edge.handle) for edge in old.into[node_id]}
    }


def _changed_bodies(definition: WorkflowDefinition, before: WorkflowDefinition | None) -> set[str]:
    """Return the FOR_EACHs whose bodies have other nodes than before, at the end of an item too."""
    if before is None or before.digest == definition.digest:
        return set()
    old, new = before.graph.scopes, definition.graph.scopes
    return {name for name in new.keys() & old.keys() - {TOP} if {*new[name].nodes} != {*old[name].nodes}}


def _written(definition: WorkflowDefinition, node_id: str) -> Mapping[str, Any]:
    """Return a node as the file has it, with the variables where it may read them."""
    node = definition.node(node_id).model_dump()
    return node | ({"variables": definition.variables} if "variables" in str(node) else {})


def calls_from_the_first_failed(steps: Sequence[Step]) -> frozenset[str]:
    """Return the calls of a blueprint from the first one on that failed or was undone: the code saw its outcome."""
    numbers = {step["node"]: step["number"] for step in steps}
    newest = _newest(steps)
    failed = [node for node, step in newest.items() if (step["status"] != "done") != node.endswith(COMPENSATION)]
    first = min((numbers[node.removesuffix(COMPENSATION)] for node in failed), default=None)
    return frozenset(step["node"] for step in steps if first is not None and step["number"] >= first)


class _Redo:
    """Collects paths, each with what follows from it."""

    def __init__(self, graph: Graph, recorded: Iterable[str]) -> None:
        self._graph, self._recorded = graph, sorted(recorded)
        self.paths: set[str] = set()

    def add(self, path: str, *, with_items: bool = False) -> None:
        """Add a node, or an item, with all that follows; ``with_items``: with everything inside of it."""
        if path in self.paths:
            return
        self.paths.add(path)
        scope, _, name = path.rpartition("/")
        if with_items:
            self.paths.update(self._inside(f"{path}/"))
        if not name.isdecimal():
            for node_id in self._following(name):
                self.add(f"{scope}/{node_id}" if scope else node_id, with_items=True)
        if scope:
            self.add(scope)

    def _inside(self, prefix: str) -> Iterator[str]:
        for number in range(bisect_left(self._recorded, prefix), len(self._recorded)):
            if not self._recorded[number].startswith(prefix):
                return
            yield self._recorded[number]

    def _following(self, node_id: str) -> Iterable[str]:
        inside = self._graph.scopes[self._graph.scope_of[node_id]].nodes if node_id in self._graph.nodes else ()
        edges = self._graph.out.get(node_id, ())
        return [edge.target for edge in edges if edge.handle != BODY and edge.target in inside]
