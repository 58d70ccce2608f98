"""FILTER: the items of a list for which a condition holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agents.workflows.calls.handler import Handler, computed, each, evaluated, is_large, items_of
from agents.workflows.calls.node_call import NodeCall
from agents.workflows.calls.scope import NodeOutput


class FilterNode(Handler):
    """Keeps the order. A condition that cannot be evaluated for an item fails the node."""

    def is_computed(self, call: NodeCall) -> bool:
        return isinstance(call.settings.items, list) and not is_large(call, call.settings.items)

    def compute(self, call: NodeCall) -> NodeOutput:
        return NodeOutput(value=_kept(call, items_of(call, call.settings.items)))

    async def run(self, call: NodeCall) -> NodeOutput | None:
        kept = await computed(call, _kept, items_of(call, call.settings.items))
        call.change = call.computed()
        return NodeOutput(value=kept)


def _kept(call: NodeCall, items: Sequence[Any]) -> list[Any]:
    variables, holds = call.variables(), call.settings.holds
    return [
        item for index, item in each(call, items) if evaluated(call, holds, {**variables, "item": item, "index": index})
    ]
