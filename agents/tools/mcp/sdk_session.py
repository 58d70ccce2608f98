"""The SDK's session as Callboard uses it: what it offers to a server, and how it answers what the server asks."""

from __future__ import annotations

from typing import Any

from mcp import ClientSession
from mcp.client.session import ClientRequestContext
from mcp.types import (
    INVALID_REQUEST,
    CallToolResult,
    ClientCapabilities,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitationCapability,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
    FormElicitationCapability,
    Implementation,
    SamplingCapability,
    UrlElicitationCapability,
)

from agents.tools.mcp.calls.notifications import OFF, McpServerLog, OpenCalls
from agents.tools.mcp.connection.traffic import Inbound, Outbound
from config.definitions.mcp_server import McpServerDefinition
from config.project import own_version


class SdkSession(ClientSession):
    """A session that offers what the server's file allows.

    Without the SDK's check of results: the server's own schemas could keep the loop busy for ever.
    """

    def __init__(
        self, server: McpServerDefinition, streams: tuple[Inbound, Outbound], calls: OpenCalls, message_handler: Any
    ) -> None:
        self._server, self._calls = server, calls
        self._log = McpServerLog(server.name, server.log_level, calls)
        super().__init__(
            *streams,
            client_info=client_info(),
            message_handler=message_handler,
            logging_callback=self._log.logged,
            elicitation_callback=self._elicited,
            sampling_callback=self._sampled,
            log_level=None if server.log_level == OFF else server.log_level,
        )

    def _build_capabilities(self, version: str) -> ClientCapabilities:
        both = ElicitationCapability(form=FormElicitationCapability(), url=UrlElicitationCapability())
        return ClientCapabilities(
            elicitation=both if self._server.elicitation != "never" else None,
            sampling=SamplingCapability() if self._server.sampling.allowed else None,
        )

    async def validate_tool_result(self, name: str, result: CallToolResult) -> None:
        """Accept any result; the caller checks it with ``config.definitions.json_schema``."""

    async def _elicited(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult | ErrorData:
        """Answer a question that a server of before 2026 asks during a call."""
        call = self._calls.whose()
        if call is not None:
            return await call.elicited(params)
        self._log.note(f"asks a person, and of {len(self._calls)} calls it is not known which one asks")
        return ElicitResult(action="cancel")

    async def _sampled(
        self, context: ClientRequestContext, params: CreateMessageRequestParams
    ) -> CreateMessageResult | ErrorData:
        """Answer a request for a model's text that a server of before 2026 sends during a call."""
        call = self._calls.whose()
        if call is not None:
            return await call.sampled(params)
        self._log.note(f"asks a model, and of {len(self._calls)} calls it is not known which one asks")
        return ErrorData(code=INVALID_REQUEST, message="it is not known in which call this is asked")


def client_info() -> Implementation:
    """Return the name and version that servers get."""
    return Implementation(name="callboard", version=own_version())
