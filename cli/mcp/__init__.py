"""The MCP server on standard input and output: a process that a client starts."""
