"""HTTP, server-sent events and the page.

A request handler validates its input, calls the layers below and formats the result; it decides nothing. A web process
imports neither litellm nor users' tools.
"""
