"""FUNCTION: a call of a tool, a capability, an MCP tool, a Celery task, an HTTP server or an agent."""

from __future__ import annotations

from agents.tools.tool import Tool
from agents.workflows.calls.handler import Handler, rendered
from agents.workflows.calls.node_call import NodeCall
from agents.workflows.calls.scope import NodeOutput
from agents.workflows.calls.tool_call import called


class FunctionNode(Handler):
    """Calls the tool that the file names; what a model wrote is never more than an argument of it."""

    def tool(self, call: NodeCall) -> Tool:
        """Return the node's tool, with the node's own limits."""
        tool: Tool = call.executor.tool_of(call.node)
        return tool

    async def run(self, call: NodeCall) -> NodeOutput | None:
        is_ours = call.node.type == "FUNCTION"  # the config of a package's type has the arguments of its function
        arguments = call.settings.arguments if is_ours else call.node.config
        return await called(call, self.tool(call), rendered(call, arguments))
