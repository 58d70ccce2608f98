"""START, END and PARALLEL: places where paths begin, end and part."""

from __future__ import annotations

from agents.workflows.calls.handler import Handler, rendered
from agents.workflows.calls.node_call import NodeCall
from agents.workflows.calls.scope import NodeOutput


class PassthroughNode(Handler):
    """START gives the run's input, END the run's output, and PARALLEL what leads to it."""

    def is_computed(self, call: NodeCall) -> bool:
        return True

    def compute(self, call: NodeCall) -> NodeOutput:
        if call.node.type == "START":
            return NodeOutput(value=dict(call.executor.input))
        if call.node.type == "END" and call.settings.output is not None:
            return NodeOutput(value=rendered(call, call.settings.output))
        followed = (edge for edge in call.executor.graph.into[call.node.id] if edge.number in call.state.followed)
        outputs = {edge.source: call.state.outputs[edge.source] for edge in followed}
        return NodeOutput(value=next(iter(outputs.values())) if len(outputs) == 1 else outputs)
