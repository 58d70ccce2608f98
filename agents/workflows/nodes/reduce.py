"""REDUCE: one value made from a list, by a named reducer, an expression or a model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agents.errors import EXPRESSION_FAILED
from agents.workflows.calls.handler import LARGE, Handler, evaluated, items_of, rendered
from agents.workflows.calls.model_call import LABELS, asked
from agents.workflows.calls.node_call import NodeCall
from agents.workflows.calls.scope import NodeOutput
from agents.workflows.nodes.llm import prompted
from config.expressions.node_expression import NodeExpression
from config.expressions.references import kind_of

Reducer = Callable[[NodeCall, Sequence[Any]], Any]


class ReduceNode(Handler):
    """An item that a reducer cannot take fails the node; none is left out."""

    async def run(self, call: NodeCall) -> NodeOutput | None:
        settings, items = call.settings, items_of(call, call.settings.items)
        if settings.reducer == "llm":
            output = await asked(call, prompted(call, items=items), model=settings.model)
            return NodeOutput(value=output, labels=LABELS)
        value = _reduced(call, items) if len(items) <= LARGE else await asyncio.to_thread(_reduced, call, items)
        call.change = call.computed()
        return NodeOutput(value=value)


def _reduced(call: NodeCall, items: Sequence[Any]) -> Any:
    if call.settings.expression is not None:
        return _folded(call, items)
    return REDUCERS[call.settings.reducer](call, items)


def _folded(call: NodeCall, items: Sequence[Any]) -> Any:
    expression, variables = NodeExpression(call.settings.expression, is_boolean=False), call.variables()
    total = rendered(call, call.settings.initial)
    for index, item in enumerate(items):
        total = evaluated(call, expression.result, {**variables, "total": total, "item": item, "index": index})
    return total


def _by(call: NodeCall, items: Sequence[Any]) -> list[Any]:
    """Return what ``by`` gives for each item; without it, the items."""
    if call.settings.by is None:
        return list(items)
    expression, variables = NodeExpression(call.settings.by, is_boolean=False), call.variables()
    return [
        evaluated(call, expression.result, {**variables, "item": item, "index": index})
        for index, item in enumerate(items)
    ]


def _sum(call: NodeCall, items: Sequence[Any]) -> Any:
    values = _by(call, items)
    _require(call, values, lambda value: isinstance(value, int | float) and not isinstance(value, bool), "a number")
    return sum(values)


def _concat(call: NodeCall, items: Sequence[Any]) -> Any:
    if items and all(isinstance(item, list) for item in items):
        return [entry for item in items for entry in item]
    _require(call, items, lambda value: isinstance(value, str), "a text, or all are lists")
    return call.settings.separator.join(items)


def _merge(call: NodeCall, items: Sequence[Any]) -> Any:
    _require(call, items, lambda value: isinstance(value, Mapping), "a mapping")
    return {key: value for item in items for key, value in item.items()}


def _group(call: NodeCall, items: Sequence[Any]) -> Any:
    groups: dict[str, list[Any]] = {}
    keys = _by(call, items)
    _require(call, keys, lambda key: isinstance(key, str | int | float), "a text or a number in `by`")
    for key, item in zip(keys, items, strict=True):
        groups.setdefault(str(key), []).append(item)
    return groups


def _first(call: NodeCall, items: Sequence[Any]) -> Any:
    if call.settings.by is None:
        return next(iter(items), None)
    return next((item for item, holds in zip(items, _by(call, items), strict=True) if holds is True), None)


def _require(call: NodeCall, values: Sequence[Any], fits: Callable[[Any], bool], what: str) -> None:
    for index, value in enumerate(values):
        if not fits(value):
            problem = f"the reducer {call.settings.reducer} needs {what}, and item {index} is {kind_of(value)}."
            raise EXPRESSION_FAILED(node=call.node.id, problem=problem)


REDUCERS: Mapping[str, Reducer] = {"sum": _sum, "concat": _concat, "merge": _merge, "group": _group, "first": _first}
