"""Isolation of tools: the sandbox folder, and a SQL process with kernel limits."""
