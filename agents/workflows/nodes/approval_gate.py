"""APPROVAL_GATE: persons approve before the run continues, by the same questions as for a tool's call."""

from __future__ import annotations

from typing import Any

from agents.tools.tool import Tool
from agents.workflows.calls.handler import Handler, rendered
from agents.workflows.calls.node_call import NodeCall
from agents.workflows.calls.scope import NodeOutput
from agents.workflows.calls.tool_call import called
from config.effects import GATE, INWARD, TRUSTED, Effect, OnExpiry

_PARAMETERS = {
    "type": "object",
    "properties": {"message": {"type": "string"}, "data": {}},
    "required": ["message"],
    "additionalProperties": False,
}


class ApprovalGateNode(Handler):
    """Asks as a call of a tool that has no effect and that a person has to approve; a rejection fails the node."""

    def tool(self, call: NodeCall) -> Tool:
        """Return what the persons approve: the message and the data, which they may change."""
        settings, name = call.settings, call.node.name or call.node.id
        return Tool(
            name=GATE,
            description=f"Lets the workflow continue behind '{name}'.",
            parameters=_PARAMETERS,
            function=_approved,
            effect=Effect.PURE,
            confirm=True,
            confirm_reason=f"The workflow continues behind '{name}' when a person approves.",
            answer_s=call.node.timeout_s,
            approvers=settings.approvers,
            on_expiry=OnExpiry(settings.on_expiry),
            labels=frozenset({INWARD, TRUSTED}),
        )

    async def run(self, call: NodeCall) -> NodeOutput | None:
        settings = call.settings
        arguments = {"message": rendered(call, settings.message)}
        if settings.data is not None:
            arguments["data"] = rendered(call, settings.data)
        return await called(call, self.tool(call), arguments)


async def _approved(message: str, data: Any = None) -> dict[str, Any]:
    return {"approved": True, "message": message, "data": data}
