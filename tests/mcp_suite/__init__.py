"""The public conformance suite of MCP against Callboard's server and client, and what of it does not apply."""
