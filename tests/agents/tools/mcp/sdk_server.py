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


@server.resource("docs://readme", mime_type="text/markdown", description="Read this first.")
def readme() -> str:
    return "Read me. See [more](http://127.0.0.1:1/more) and [this](file:///etc/passwd)."


@server.resource("docs://logo", mime_type="image/png")
def logo() -> bytes:
    return bytes(1000)


@server.resource("docs://long")
def long() -> str:
    return "x" * 50_000 + "y" * 5


@server.resource("private://salaries")
def salaries() -> str:
    return "secret"


@server.resource("docs://pages/{name}")
def page(name: str) -> str:
    return f"The page {name}."


@server.prompt(description="Ask for a review.")
def review(code: str, tone: str = "kind") -> str:
    return f"Review this code in a {tone} tone: {code}"


@server.prompt()
def other() -> str:
    return "Something else."


if __name__ == "__main__":
    kind = sys.argv[1]
    if kind == "stdio":
        server.run("stdio")
    elif kind == "sse":
        server.run("sse", port=int(sys.argv[2]))
    else:
        port, is_json, is_stateless = int(sys.argv[2]), kind == "json", kind == "stateless"
        server.run("streamable-http", port=port, json_response=is_json, stateless_http=is_stateless)
