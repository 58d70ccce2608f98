"""The base of what carries out nodes: one class for each type, without state of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from agents.errors import EXPRESSION_FAILED, ITEMS_REFUSED, NO_BRANCH
from agents.workflows.calls.node_call import NodeCall
from agents.workflows.calls.scope import NodeOutput
from config.definitions.workflows.graph import DEFAULT
from config.expressions.errors import ExpressionFailed
from config.expressions.references import kind_of
from config.expressions.templates import render_data
from config.expressions.work import size_of

T = TypeVar("T")
MAX_ITEMS = 100_000
"""Most items of a list that one node works on."""
LARGE = 500
"""Items that are computed on the loop of all runs; more are computed on a thread."""
LARGE_CHARS = 1_000_000
"""Characters that are read for all items on that loop: what an expression reads is converted for each item."""


class Handler:
    """Carries out nodes of one type."""

    def is_computed(self, call: NodeCall) -> bool:
        """Return whether ``compute`` has the node's outcome at once, without waiting for anything."""
        return False

    def compute(self, call: NodeCall) -> NodeOutput:
        """Return the outcome of a node that only computes.

        Raises:
            CallboardError: the node has failed.
        """
        raise NotImplementedError

    async def run(self, call: NodeCall) -> NodeOutput | None:
        """Return the node's outcome; None where it waits, with what it waits for in ``executor.open``.

        Raises:
            NodeFailed: it has failed, with the commit that ends its step.
            CallboardError: it has failed; ``call.change`` ends its step.
        """
        raise NotImplementedError

    def read(self, call: NodeCall, result: Any) -> NodeOutput:
        """Return the outcome of a node that an earlier owner has recorded."""
        return NodeOutput(value=result)


def is_large(call: NodeCall, items: Sequence[Any]) -> bool:
    """Return whether a node's expression takes so long for these items that a thread has to compute it."""
    return len(items) > LARGE or len(items) * size_of(call.variables())[1] > LARGE_CHARS


async def computed(call: NodeCall, function: Callable[[NodeCall, Sequence[Any]], T], items: Sequence[Any]) -> T:
    """Return what a function makes of the items, on a thread where that is large."""
    if not is_large(call, items):
        return function(call, items)
    try:
        return await asyncio.to_thread(function, call, items)
    except asyncio.CancelledError:
        call.is_halted = True
        raise


def each(call: NodeCall, items: Iterable[T]) -> Iterator[tuple[int, T]]:
    """Yield the items with their indices until the run is stopped: the result is not used then."""
    for index, item in enumerate(items):
        if call.is_halted:
            return
        yield index, item


def evaluated(call: NodeCall, function: Callable[..., T], *arguments: Any) -> T:
    """Return what an expression of a node gives.

    Raises:
        EXPRESSION_FAILED: it gives nothing with these values.
    """
    try:
        return function(*arguments)
    except ExpressionFailed as error:
        raise EXPRESSION_FAILED(node=call.node.id, problem=str(error)) from error


def rendered(call: NodeCall, data: Any, **more: Any) -> Any:
    """Return data with its templates filled in.

    Raises:
        EXPRESSION_FAILED: a value is missing, or the text grows too long.
    """
    return evaluated(call, render_data, data, call.variables(**more))


def items_of(call: NodeCall, data: Any) -> list[Any]:
    """Return the list that a node works on.

    Raises:
        ITEMS_REFUSED: it is none, or too long.
    """
    items = rendered(call, data)
    if isinstance(items, list) and len(items) <= MAX_ITEMS:
        return items
    if isinstance(items, list):
        problem = f"this has {len(items):,}; split it over several runs"
    else:
        problem = f"this is {kind_of(items)}; give it a list"
    raise ITEMS_REFUSED(node=call.node.id, limit=MAX_ITEMS, problem=problem)


def chosen(call: NodeCall, branch: str, **more: Any) -> NodeOutput:
    """Return the outcome of a node that has chosen a branch.

    Raises:
        NO_BRANCH: it is the default, and no edge is drawn for that.
    """
    graph, node_id = call.executor.graph, call.node.id
    has_default = graph.is_legacy(node_id) or any(edge.handle == DEFAULT for edge in graph.out[node_id])
    if branch == DEFAULT and not has_default:
        raise NO_BRANCH(node=node_id)
    return NodeOutput(value={"branch": branch, **more}, branch=branch)
