"""FILTER: the items of a list for which a condition holds."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from agents.workflows.calls.handler import LARGE, Handler, evaluated, items_of
from agents.workflows.calls.node_call import NodeCall
from agents.workflows.calls.scope import NodeOutput


class FilterNode(Handler):
    """Keeps the order. A condition that cannot be evaluated for an item fails the node."""

    def is_computed(self, call: NodeCall) -> bool:
        return isinstance(call.settings.items, list) and len(call.settings.items) <= LARGE

    def compute(self, call: NodeCall) -> NodeOutput:
        return NodeOutput(value=self._kept(call, items_of(call, call.settings.items)))

    async def run(self, call: NodeCall) -> NodeOutput | None:
        items = items_of(call, call.settings.items)
        kept = self._kept(call, items) if len(items) <= LARGE else await asyncio.to_thread(self._kept, call, items)
        call.change = call.computed()
        return NodeOutput(value=kept)

    def _kept(self, call: NodeCall, items: Sequence[Any]) -> list[Any]:
        variables, holds = call.variables(), call.settings.holds
        return [
            item
            for index, item in enumerate(items)
            if evaluated(call, holds, {**variables, "item": item, "index": index})
        ]
