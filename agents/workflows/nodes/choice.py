"""CHOICE: the first branch whose condition holds."""

from __future__ import annotations

from typing import Any

from agents.workflows.calls.handler import Handler, chosen, evaluated
from agents.workflows.calls.node_call import NodeCall
from agents.workflows.calls.scope import NodeOutput
from config.definitions.workflows.graph import BRANCH, DEFAULT


class ChoiceNode(Handler):
    """Chooses by CEL or by rules. A condition that cannot be evaluated fails the node: it takes no branch."""

    def is_computed(self, call: NodeCall) -> bool:
        return True

    def compute(self, call: NodeCall) -> NodeOutput:
        variables = call.variables()
        for number, branch in enumerate(call.settings.branches_):
            if evaluated(call, branch.holds, variables):
                return chosen(call, f"{BRANCH}{number}")
        return chosen(call, DEFAULT)

    def read(self, call: NodeCall, result: Any) -> NodeOutput:
        return NodeOutput(value=result, branch=result["branch"])
