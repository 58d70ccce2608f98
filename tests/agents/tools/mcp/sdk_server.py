"""The SDK's own server: ``python sdk_server.py stdio`` or ``http``, ``json``, ``stateless``, ``sse`` and a port."""

from __future__ import annotations

import os
import sys

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

server = MCPServer("shop")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def process() -> int:
    """Return the process's id."""
    return os.getpid()


@server.tool()
def fail(why: str) -> str:
    """Fail with this text."""
    raise ToolError(why)


if __name__ == "__main__":
    kind = sys.argv[1]
    if kind == "stdio":
        server.run("stdio")
    elif kind == "sse":
        server.run("sse", port=int(sys.argv[2]))
    else:
        port, is_json, is_stateless = int(sys.argv[2]), kind == "json", kind == "stateless"
        server.run("streamable-http", port=port, json_response=is_json, stateless_http=is_stateless)
