"""Sessions that a caller opens and ends itself, under the names of the first design; runs use the process's pool."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from agents.tool_errors import McpServerDown
from agents.tools.mcp.catalogue.listed import ServerTool, sorted_out
from agents.tools.mcp.oauth.tokens import new_tokens
from agents.tools.mcp.outcomes import SessionGone
from agents.tools.mcp.server_session import McpSession
from config.definitions.mcp.server import McpServerDefinition

MCPServerDefinition = McpServerDefinition
"""The first design's name."""


class MCPClientManager:
    """One session for each server that it was asked to start. To be used on one loop."""

    def __init__(self, tenant: str) -> None:
        """``tenant``: whose logins are used at servers with OAuth."""
        self._tenant = tenant
        self._sessions: dict[str, McpSession] = {}

    async def start_server(self, definition: McpServerDefinition) -> McpSession:
        """Return an open session with the server, which a second call with its name returns again.

        Raises:
            McpServerDown: it cannot be used; ``facts["fault"]`` is the kind where it is known.
            SECRET_MISSING: a reference of the definition leads to nothing.
        """
        session = self._sessions.get(definition.name)
        if session is None or not session.life.is_usable:
            session = self._sessions[definition.name] = session_of(definition, self._tenant)
            session.life.start()
        await session.life.opened()
        return session

    async def cleanup(self) -> None:
        """End every session, and the servers that were started."""
        sessions, self._sessions = list(self._sessions.values()), {}
        for session in sessions:
            await session.life.close(at_once=True)


def session_of(definition: McpServerDefinition, tenant: str) -> McpSession:
    """Return a session that is not open.

    Raises:
        SECRET_MISSING: a reference of the definition leads to nothing.
    """
    is_local = definition.command is not None
    credentials = definition.environment() if is_local else definition.filled_headers()
    return McpSession(definition, credentials, new_tokens(tenant, definition))


async def mcp_list_tools(
    server_def: McpServerDefinition, include_tools: Collection[str] | None = None, *, tenant: str = "default"
) -> dict[str, dict[str, Any]]:
    """Return name, description and schemas of a server's usable tools, by name; the server is ended afterwards.

    ``include_tools`` are those to return; None: those that the definition includes.

    Raises:
        McpServerDown, ToolCutOff, ToolFailed, OutputUnfit: the server did not list them.
        SECRET_MISSING: a reference of the definition leads to nothing.
    """
    manager = MCPClientManager(tenant)
    try:
        tools, _ = await listing(await manager.start_server(server_def))
    finally:
        await manager.cleanup()
    names = {name for name in tools if server_def.includes(name)} if include_tools is None else set(include_tools)
    return {name: tool.content for name, tool in tools.items() if name in names}


async def listing(session: McpSession) -> tuple[dict[str, ServerTool], dict[str, str]]:
    """Return the usable tools of an open session's server by name, and of the others why they are none.

    Raises:
        McpServerDown, ToolCutOff, ToolFailed, OutputUnfit: the server did not list them.
    """
    try:
        return sorted_out(await session.tools())
    except SessionGone as error:
        problem = f"the MCP server {session.server.name} was not asked: it ends each session at once."
        raise McpServerDown(problem) from error
