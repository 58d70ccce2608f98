"""REDUCE: one value made from a list, by a named reducer, an expression or a model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from agents.errors import EXPRESSION_FAILED
from agents.workflows.calls.handler import Handler, computed, each, evaluated, items_of, rendered
from agents.workflows.calls.model_call import LABELS, asked
from agents.workflows.calls.node_call import NodeCall
from agents.workflows.calls.scope import NodeOutput
from agents.workflows.nodes.llm import prompted
from config.expressions.errors import ExpressionFailed
from config.expressions.node_expression import NodeExpression
from config.expressions.references import kind_of
from config.expressions.templates import require_size
from config.expressions.work import size_of

Reducer = Callable[[NodeCall, Sequence[Any]], Any]


class ReduceNode(Handler):
    """An item that a reducer cannot take fails the node; none is left out."""

    async def run(self, call: NodeCall) -> NodeOutput | None:
        settings, items = call.settings, items_of(call, call.settings.items)
        if settings.reducer == "llm":
            output = await asked(call, prompted(call, items=items), model=settings.model)
            return NodeOutput(value=output, labels=LABELS)
        value = await computed(call, _reduced, items)
        call.change = call.computed()
        return NodeOutput(value=value)


def _reduced(call: NodeCall, items: Sequence[Any]) -> Any:
    if call.settings.expression is not None:
        return _folded(call, items)
    value = REDUCERS[call.settings.reducer](call, items)
    evaluated(call, require_size, size_of({"": value})[1])
    return value


def _folded(call: NodeCall, items: Sequence[Any]) -> Any:
    expression, variables = NodeExpression(call.settings.expression, is_boolean=False), call.variables()
    total = rendered(call, call.settings.initial)
    for index, item in each(call, items):
        total = evaluated(call, expression.result, {**variables, "total": total, "item": item, "index": index})
    return total


def _by(call: NodeCall, items: Sequence[Any]) -> list[Any]:
    """Return what ``by`` gives for each item; without it, the items."""
    if call.settings.by is None:
        return list(items)
    expression, variables = NodeExpression(call.settings.by, is_boolean=False), call.variables()
    return [_of_item(call, expression.result, variables, index, item) for index, item in each(call, items)]


def _of_item(call: NodeCall, function: Callable[..., Any], variables: Mapping[str, Any], index: int, item: Any) -> Any:
    try:
        return function({**variables, "item": item, "index": index})
    except ExpressionFailed as error:
        raise EXPRESSION_FAILED(node=call.node.id, problem=f"`by` of item {index}: {error}") from error


def _sum(call: NodeCall, items: Sequence[Any]) -> Any:
    values = _by(call, items)
    _require(call, values, lambda value: isinstance(value, int | float) and not isinstance(value, bool), "a number")
    total = sum(values)
    if not math.isfinite(total) or (not -(2**63) <= total < 2**63 and isinstance(total, int)):
        problem = "the sum is beyond what a number holds, 64 bits; add smaller numbers, or texts of them in a tool."
        raise EXPRESSION_FAILED(node=call.node.id, problem=problem)
    return total


def _concat(call: NodeCall, items: Sequence[Any]) -> Any:
    if items and all(isinstance(item, list) for item in items):
        return [entry for item in items for entry in item]
    _require(call, items, lambda value: isinstance(value, str), "a text, or all are lists")
    return call.settings.separator.join(items)


def _merge(call: NodeCall, items: Sequence[Any]) -> Any:
    _require(call, items, lambda value: isinstance(value, Mapping), "a mapping")
    return {key: value for item in items for key, value in item.items()}


def _group(call: NodeCall, items: Sequence[Any]) -> Any:
    """Return lists of items by what ``by`` gives of each, as text: a number or a truth value as in JSON."""
    keys = _by(call, items)
    _require(call, keys, lambda key: isinstance(key, str | int | float), "a text, a number or a truth value in `by`")
    kind = kind_of(keys[0]) if keys else ""
    _require(call, keys, lambda key: kind_of(key) == kind, f"one kind of `by`, where that of item 0 is {kind}")
    groups: dict[str, list[Any]] = {}
    for key, item in zip(keys, items, strict=True):
        groups.setdefault(_text(key), []).append(item)
    return groups


def _text(key: str | float) -> str:
    if isinstance(key, float) and key.is_integer():
        key = int(key)
    return key if isinstance(key, str) else orjson.dumps(key).decode()


def _first(call: NodeCall, items: Sequence[Any]) -> Any:
    """Return the first item for which ``by`` holds; without it, the first."""
    if call.settings.by is None:
        return next(iter(items), None)
    expression, variables = NodeExpression(call.settings.by), call.variables()
    holding = (item for n, item in each(call, items) if _of_item(call, expression.holds, variables, n, item))
    return next(holding, None)


def _require(call: NodeCall, values: Sequence[Any], fits: Callable[[Any], bool], what: str) -> None:
    for index, value in enumerate(values):
        if not fits(value):
            problem = f"the reducer {call.settings.reducer} needs {what}, and item {index} is {kind_of(value)}."
            raise EXPRESSION_FAILED(node=call.node.id, problem=problem)


REDUCERS: Mapping[str, Reducer] = {"sum": _sum, "concat": _concat, "merge": _merge, "group": _group, "first": _first}
