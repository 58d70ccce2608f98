"""TRANSFORM: data made from templates."""

from __future__ import annotations

from agents.workflows.calls.handler import Handler, rendered
from agents.workflows.calls.node_call import NodeCall
from agents.workflows.calls.scope import NodeOutput


class TransformNode(Handler):
    """Gives ``output`` with its templates filled in; a missing value is an error."""

    def is_computed(self, call: NodeCall) -> bool:
        return True

    def compute(self, call: NodeCall) -> NodeOutput:
        return NodeOutput(value=rendered(call, call.settings.output))
