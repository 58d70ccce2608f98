"""The MCP server: agents and their tools as tools of the Model Context Protocol, for clients of both of its eras.

It is written with the SDK's low-level server. A call is a run like any other: the access decisions, the policy, the
approvals and the log are those of every other entry point.
"""
