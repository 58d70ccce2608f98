"""MCP servers that agents use: their processes and connections, one session a server, tenant and credentials."""

PREFIX = "mcp:"
"""How a definition writes that tools are those of an MCP server."""
