"""Who sends a request: API keys, service tokens, tickets of streams, and the installation's own token."""
