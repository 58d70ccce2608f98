"""The tools that an agent's ``resources`` and ``prompts`` stand for: two for each server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from agents.tools.mcp import PREFIX
from agents.tools.mcp.allowed_resources import by_server
from agents.tools.mcp.prompts import prompt_tools
from agents.tools.mcp.resources import resource_tools
from agents.tools.mcp.tool_builder import server_named
from agents.tools.tool import Tool
from config.definitions.mcp_server import McpServerDefinition
from config.settings import Settings

_MAKERS: Mapping[str, Callable[[McpServerDefinition, tuple[str, ...]], list[Tool]]] = {
    "resources": resource_tools,
    "prompts": prompt_tools,
}


def reading_tools(field: str, paths: Sequence[str], settings: Settings) -> list[Tool]:
    """Return the tools for the lines of a field. No server is asked.

    Raises:
        ToolUnknown: there is no such server.
    """
    return [
        tool
        for server, named in by_server(paths).items()
        for tool in _MAKERS[field](server_named(server, f"{PREFIX}{server}", settings), named)
    ]
