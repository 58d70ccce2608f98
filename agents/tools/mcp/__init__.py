"""MCP servers that agents use: their processes and connections, one session a server, tenant and credentials."""

from config.definitions.mcp.names import PREFIX as PREFIX
