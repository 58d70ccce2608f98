"""Policies: what is decided about each model call and each tool call before it is made."""
