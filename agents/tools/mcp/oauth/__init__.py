"""Access tokens for MCP servers that are reached by HTTP: the SDK's flow, over requests that are checked here."""
