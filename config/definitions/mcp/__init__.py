"""MCP servers as definitions declare them, and the names of their tools."""
