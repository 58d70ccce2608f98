"""The graph of a workflow: its scopes, what each node may read, and the mistakes that a drawing can have.

A scope is a part of the graph that is walked by itself: the whole graph, or the body of a FOR_EACH, which is walked
once for each item. A body is what the edges with ``foreach-body`` lead to; it ends at nodes without further edges, or
whose edge leads back to the FOR_EACH.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from config.text.names import did_you_mean

BODY, DEFAULT, ERROR, NEXT = "foreach-body", "default", "error", ""
"""Handles of edges; ``NEXT`` is an edge without one."""
COMPENSATION = "~compensate"
"""What the path of the call that undoes a node's has behind the node's."""
BRANCH, PARALLEL = "branch-", "parallel-"
"""What the handles of numbered branches begin with."""
MAX_BRANCHES = 20
"""Most branches that a node begins at once."""
MAX_DEPTH = 3
"""Most bodies of FOR_EACH around a node, and most workflows above one."""
TOP = ""
"""The scope of the whole graph."""

Place = tuple[str | int, ...]


class Node(Protocol):
    """What the graph knows of a node."""

    @property
    def id(self) -> str: ...

    @property
    def type(self) -> str: ...

    @property
    def follows_error(self) -> bool:
        """Whether a failure follows the edges with ``error``."""

    @property
    def branches(self) -> Sequence[str] | None:
        """The handles that its outcome chooses from; None: it chooses none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Edge:
    """An edge, and its place in the file's list."""

    source: str
    target: str
    handle: str
    number: int

    @property
    def place(self) -> Place:
        return ("edges", self.number)


class GraphMistake(ValueError):
    """The drawing cannot be walked; the text says what is wrong, and what to write."""

    def __init__(self, place: Place, problem: str) -> None:
        super().__init__(problem)
        self.place = place


@dataclass(frozen=True, kw_only=True, slots=True)
class GraphScope:
    """A part of the graph that is walked by itself."""

    id: str
    """The FOR_EACH whose body it is; ``TOP``: the whole graph."""
    nodes: tuple[str, ...]
    """In an order in which each node comes behind those that lead to it; otherwise as in the file."""
    entries: tuple[str, ...]
    """The nodes with which a walk begins."""
    outside: str | None
    """The scope around it."""


class Graph:
    """A drawing that was checked; a mistake is raised by the constructor."""

    def __init__(self, nodes: Sequence[Node], edges: Sequence[Edge]) -> None:
        """Check the drawing.

        Raises:
            GraphMistake: it cannot be walked.
        """
        self.nodes: Mapping[str, Node] = {node.id: node for node in nodes}
        self._numbers = {node.id: number for number, node in enumerate(nodes)}
        self.edges = tuple(edges)
        self._check_nodes(nodes)
        self.out: Mapping[str, tuple[Edge, ...]] = {node.id: () for node in nodes}
        self.into: Mapping[str, tuple[Edge, ...]] = {node.id: () for node in nodes}
        self._connect()
        for node in nodes:
            self._check_handles(node)
        self.scope_of: dict[str, str] = {}
        self.scopes: dict[str, GraphScope] = {}
        self._divide()
        self._check_reached()

    # --- the nodes and their edges

    def _check_nodes(self, nodes: Sequence[Node]) -> None:
        seen: set[str] = set()
        for number, node in enumerate(nodes):
            if node.id in seen:
                raise GraphMistake(("nodes", number, "id"), f"two nodes are called '{node.id}'; rename one of them.")
            seen.add(node.id)
        starts = [number for number, node in enumerate(nodes) if node.type == "START"]
        if len(starts) != 1:
            problem = "there is no START node; add `- {id: start, type: START}`, with an edge to the first node."
            place: Place = ("nodes",)
            if starts:
                place, problem = (
                    ("nodes", starts[1]),
                    "there are two START nodes; keep one, with an edge to each beginning.",
                )
            raise GraphMistake(place, problem)
        if not any(node.type == "END" for node in nodes):
            problem = "there is no END node; add `- {id: end, type: END}`, with an edge from the last node."
            raise GraphMistake(("nodes",), problem)

    def _connect(self) -> None:
        out: dict[str, list[Edge]] = {node_id: [] for node_id in self.nodes}
        into: dict[str, list[Edge]] = {node_id: [] for node_id in self.nodes}
        for edge in self.edges:
            for side, node_id in (("source", edge.source), ("target", edge.target)):
                if node_id not in self.nodes:
                    hint = did_you_mean(node_id, self.nodes) or f" The nodes are {_listed(self.nodes)}."
                    raise GraphMistake((*edge.place, side), f"there is no node '{node_id[:80]}'.{hint}")
            if self.nodes[edge.target].type == "START":
                raise GraphMistake((*edge.place, "target"), "no edge leads to START; let it lead to another node.")
            if self.nodes[edge.source].type == "END":
                raise GraphMistake((*edge.place, "source"), "no edge leaves END; take this edge away.")
            if any(other.target == edge.target and other.handle == edge.handle for other in out[edge.source]):
                raise GraphMistake(edge.place, "this edge is drawn twice; take one of them away.")
            out[edge.source].append(edge)
            into[edge.target].append(edge)
        self.out = {node_id: tuple(edges) for node_id, edges in out.items()}
        self.into = {node_id: tuple(edges) for node_id, edges in into.items()}

    def is_legacy(self, node_id: str) -> bool:
        """Return whether a node that chooses its edges by handles has edges without any, so that all are followed."""
        node, edges = self.nodes[node_id], self.out[node_id]
        return node.branches is not None and bool(edges) and all(edge.handle in (NEXT, ERROR) for edge in edges)

    def _check_handles(self, node: Node) -> None:
        """Check that each edge can be followed, and that each branch leads somewhere."""
        edges, place = self.out[node.id], ("nodes", self._numbers[node.id])
        handles = [edge.handle for edge in edges]
        offered = self.handles_of(node)
        for edge in edges:
            if edge.handle not in offered and not (node.type == "PARALLEL" and edge.handle.startswith(PARALLEL)):
                raise GraphMistake((*edge.place, "source_handle"), _unknown_handle(node, edge.handle, offered))
        if node.follows_error != (ERROR in handles):
            raise GraphMistake(place, _error_edge(node, has_edge=ERROR in handles))
        if not self.is_legacy(node.id):
            missing = [handle for handle in node.branches or () if handle not in (*handles, DEFAULT, NEXT)]
            if missing:
                raise GraphMistake(place, f"no edge of '{node.id}' has `source_handle: {missing[0]}`; add one.")
        for handle in {*handles}:
            group = [edge for edge in edges if _group(node, edge.handle) == _group(node, handle)]
            if len(group) > MAX_BRANCHES:
                problem = f"'{node.id}' begins {len(group)} branches at once, and {MAX_BRANCHES} are the most; "
                raise GraphMistake(group[MAX_BRANCHES].place, f"{problem}use FOR_EACH, or a node between them.")

    def handles_of(self, node: Node) -> tuple[str, ...]:
        """Return the handles that edges of a node may have, apart from the numbered ones of PARALLEL."""
        chosen = node.branches
        legacy = (NEXT,) if chosen is not None and self.is_legacy(node.id) else ()
        own = (NEXT,) if chosen is None else (*chosen, *legacy)
        return (*own, ERROR) if node.follows_error else own

    # --- its scopes

    def _divide(self) -> None:
        """Assign each node to the scope that walks it."""
        start = next(node_id for node_id, node in self.nodes.items() if node.type == "START")
        waiting: list[tuple[str, tuple[str, ...], str | None, int]] = [(TOP, (start,), None, 0)]
        while waiting:
            scope_id, entries, outside, depth = waiting.pop(0)
            members = self._reached(scope_id, entries)
            for node_id in members:
                if node_id in self.scope_of:
                    raise GraphMistake(self._place(node_id), self._in_two(node_id, scope_id))
                self.scope_of[node_id] = scope_id
            self.scopes[scope_id] = GraphScope(
                id=scope_id, nodes=self._ordered(members, scope_id), entries=entries, outside=outside
            )
            for node_id in members:
                bodies = tuple(edge.target for edge in self.out[node_id] if edge.handle == BODY)
                if bodies and depth == MAX_DEPTH:
                    problem = f"is nested deeper than {MAX_DEPTH} FOR_EACH; make the inner part a workflow of its own."
                    raise GraphMistake(self._place(node_id), problem)
                waiting += [(node_id, bodies, scope_id, depth + 1)] if bodies else []

    def _reached(self, scope_id: str, entries: Iterable[str]) -> tuple[str, ...]:
        """Return what these nodes lead to without entering a body, and without going back to their own FOR_EACH."""
        members: dict[str, None] = {}
        waiting = list(entries)
        while waiting:
            node_id = waiting.pop(0)
            if node_id == scope_id:
                problem = f"the body of '{scope_id}' begins with itself; let `{BODY}` lead to the body's first node."
                raise GraphMistake(self._place(scope_id), problem)
            if node_id not in members:
                members[node_id] = None
                waiting += [
                    edge.target for edge in self.out[node_id] if edge.handle != BODY and edge.target != scope_id
                ]
        return tuple(members)

    def _in_two(self, node_id: str, scope_id: str) -> str:
        first = self.scope_of[node_id]
        body = scope_id if scope_id != TOP else first
        return (
            f"is reached from the body of '{body}' and from outside of it; let the body end before it, and draw the "
            f"edge from '{body}' itself, which follows it once with all results."
        )

    def _ordered(self, members: Sequence[str], scope_id: str) -> tuple[str, ...]:
        """Return the nodes of a scope in walking order.

        Raises:
            GraphMistake: some lead to each other in a circle.
        """
        inside = set(members)
        missing = {
            node_id: sum(edge.source in inside and edge.handle != BODY for edge in self.into[node_id])
            for node_id in members
        }
        ready = sorted((node_id for node_id in members if missing[node_id] == 0), key=self._numbers.__getitem__)
        ordered: list[str] = []
        while ready:
            node_id = ready.pop(0)
            ordered.append(node_id)
            for edge in self.out[node_id]:
                if edge.target in inside and edge.handle != BODY:
                    missing[edge.target] -= 1
                    ready += [edge.target] if missing[edge.target] == 0 else []
            ready.sort(key=self._numbers.__getitem__)
        left = [node_id for node_id in members if node_id not in ordered]
        if left:
            circle = " -> ".join(self._circle(left))
            problem = f"lead to each other in a circle ({circle}), which would never end; repeat work with FOR_EACH."
            raise GraphMistake(self._place(min(left, key=self._numbers.__getitem__)), problem)
        return tuple(ordered)

    def _circle(self, left: Sequence[str]) -> list[str]:
        path = [left[0]]
        while True:
            before = next(edge.source for edge in self.into[path[-1]] if edge.source in left and edge.handle != BODY)
            if before in path:
                return [before, *reversed(path[path.index(before) :])]
            path.append(before)

    def _check_reached(self) -> None:
        for node_id, node in self.nodes.items():
            if node_id not in self.scope_of:
                what = "END cannot be reached" if node.type == "END" else f"nothing leads to '{node_id}'"
                raise GraphMistake(self._place(node_id), f"{what}; draw an edge to it, or take it away.")
            if node.type == "END" and self.scope_of[node_id] != TOP:
                problem = f"END is inside the body of '{self.scope_of[node_id]}'; draw its edge from there."
                raise GraphMistake(self._place(node_id), problem)

    def _place(self, node_id: str) -> Place:
        return ("nodes", self._numbers[node_id])

    # --- what follows from it

    @cached_property
    def above(self) -> Mapping[str, frozenset[str]]:
        """The nodes whose outputs a node may read: those that lead to it, or to a FOR_EACH around it.

        What a node reads is thereby the same whenever the branches beside it end.
        """
        above: dict[str, frozenset[str]] = {}
        for scope in self.scopes.values():  # the outer ones come first
            around = above[scope.id] if scope.id != TOP else frozenset[str]()
            for node_id in scope.nodes:
                sources = [edge.source for edge in self.into[node_id] if edge.source in above and edge.handle != BODY]
                inside = [source for source in sources if self.scope_of[source] == scope.id]
                above[node_id] = around.union(inside, *(above[source] for source in inside))
        return above

    def around(self, scope_id: str | None) -> Iterator[str]:
        """Yield a scope and those around it, the innermost first."""
        while scope_id is not None:
            yield scope_id
            scope_id = self.scopes[scope_id].outside


def _group(node: Node, handle: str) -> str:
    """Return what tells the edges apart that are followed together: all branches of a PARALLEL are."""
    return PARALLEL if node.type == "PARALLEL" and handle.startswith(PARALLEL) else handle


def _unknown_handle(node: Node, handle: str, offered: Sequence[str]) -> str:
    if handle == ERROR:
        return f"'{node.id}' follows no `error` edge; write `on_error: branch` at the node."
    listing = [offer for offer in offered if offer] + (
        [f"{PARALLEL}0, {PARALLEL}1, ..."] if node.type == "PARALLEL" else []
    )
    if not listing:
        return f"{node.type} has no handles; leave `source_handle` out."
    written = f"`{handle[:40]}`" if handle else "an edge without a handle"
    return f"'{node.id}' has no {written}; its handles are {', '.join(listing)}."


def _error_edge(node: Node, *, has_edge: bool) -> str:
    if has_edge:
        return f"'{node.id}' has an edge for `error`, which is not followed; write `on_error: branch` at the node."
    return f"'{node.id}' has `on_error: branch`, and no edge with `source_handle: error`; add one."


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
