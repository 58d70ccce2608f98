"""What other folders keep in the journal's database, beside runs."""

from __future__ import annotations

from bus.journal.decisions.links import ApprovalLinks
from bus.journal.ownership.tools import Tools
from bus.journal.ownership.workers import Workers
from bus.journal.sticky import StickyApprovals
from bus.journal.storage.internal_events import InternalEvents
from bus.journal.storage.mcp_logins import McpLogins
from bus.journal.storage.mcp_manifests import McpManifests
from bus.journal.storage.write_probe import WriteProbe
from config.database.engine import Database


class Stores:
    """One for each kind of row; their methods block and wait for the database."""

    def __init__(self, database: Database) -> None:
        self.workers = Workers(database)
        """Worker processes that are alive."""
        self.tools = Tools(database)
        """The tools that workers have loaded."""
        self.mcp_manifests = McpManifests(database)
        self.mcp_logins = McpLogins(database)
        self.approval_links = ApprovalLinks(database)
        self.sticky_approvals = StickyApprovals(database)
        self.internal_events = InternalEvents(database)
        """What clients report about events outside, found by correlation id."""
        self.write_probe = WriteProbe(database)
