"""SUB_WORKFLOW: another workflow as a child run."""

from __future__ import annotations

from dataclasses import replace

from agents.errors import EXPRESSION_FAILED
from agents.tools.tool import Tool
from agents.workflows.calls.handler import Handler, rendered
from agents.workflows.calls.node_call import NodeCall
from agents.workflows.calls.scope import NodeOutput
from agents.workflows.calls.tool_call import called
from config.expressions.references import kind_of


class SubWorkflowWrapper(Handler):
    """Maps a node's data to the input of a child run, and the child's output to that of the node.

    The journal knows the runs above (``_nesting_path``), so a circle and a nesting that is too deep are refused before
    there is a child.
    """

    def tool(self, call: NodeCall) -> Tool:
        """Return the workflow as the tool whose calls are child runs."""
        tool: Tool = call.executor.tool_of(call.node)
        return tool

    async def run(self, call: NodeCall) -> NodeOutput | None:
        data = rendered(call, call.settings.input)
        if not isinstance(data, dict):
            problem = (
                f"`input` has to be a mapping, and this is {kind_of(data)}; write what the workflow takes by name."
            )
            raise EXPRESSION_FAILED(node=call.node.id, problem=problem)
        output = await called(call, self.tool(call), data)
        if output is None or call.settings.output is None:
            return output
        return replace(output, value=rendered(call, call.settings.output, result=output.value))
