"""The journal's interface for what other folders keep in it: workers, their tools, and logins at MCP servers.

This file lists names alone; the methods of ``Journal.stores`` are in ``bus/journal/journal.py``.
"""

from typing import TYPE_CHECKING

from bus.journal.on_demand import on_demand

if TYPE_CHECKING:
    from bus.journal.live.database_id import database_id, is_shared
    from bus.journal.ownership.claims import pool_problem
    from bus.journal.ownership.tools import LoadedTool, ToolMetadata, Tools
    from bus.journal.ownership.workers import WorkerRow, Workers, abandoned_calls, missing_keys, serves
    from bus.journal.storage.agent_versions import AgentVersions, Aliases
    from bus.journal.storage.mcp import McpLogins, SealedLogin
    from bus.journal.storage.node_types import seed_node_types
    from bus.journal.storage.summaries import WINDOW_PART, NewSummary
    from bus.journal.unowned.task_waits import KnownWait
else:
    __getattr__ = on_demand(globals())
