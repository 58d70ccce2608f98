"""What other folders keep in the journal's database: manifests and logins of MCP servers, and events from outside."""
