"""The journal of one process: its database and its loop, and what each actor does with them."""

from __future__ import annotations

from collections.abc import Callable

from bus.journal.actors.clients import Clients
from bus.journal.actors.live import Live
from bus.journal.actors.owner import Owner
from bus.journal.actors.readers import Readers
from bus.journal.decisions.decisions import Guard
from bus.journal.decisions.links import ApprovalLinks
from bus.journal.outbox import Publish
from bus.journal.ownership.tools import Tools
from bus.journal.ownership.workers import Workers
from bus.journal.sticky import StickyApprovals
from bus.journal.storage.agent_versions import AgentVersions
from bus.journal.storage.internal_events import InternalEvents
from bus.journal.storage.mcp import McpLogins, McpManifests
from bus.journal.storage.summaries import Summaries
from bus.journal.storage.write_probe import WriteProbe
from bus.loop import ProcessLoop, process_loop
from config.database.engine import Database, open_database
from config.settings import Settings


class Stores:
    """One for each kind of row; their methods block and wait for the database."""

    def __init__(self, database: Database) -> None:
        self.workers = Workers(database)
        """Worker processes that are alive."""
        self.tools = Tools(database)
        """The tools that workers have loaded."""
        self.agent_versions = AgentVersions(database)
        """What agents' files have said, and which of it serves."""
        self.mcp_manifests = McpManifests(database)
        self.mcp_logins = McpLogins(database)
        self.approval_links = ApprovalLinks(database)
        self.sticky_approvals = StickyApprovals(database)
        self.summaries = Summaries(database)
        """What models are given of threads that have grown long."""
        self.internal_events = InternalEvents(database)
        """What clients report about events outside, found by correlation id."""
        self.write_probe = WriteProbe(database)


class Journal:
    """The access of one process to all runs, by actor; opened together and closed together."""

    def __init__(
        self,
        settings: Settings,
        *,
        publish: Publish,
        guard: Callable[[], Guard],
        loop: ProcessLoop | None = None,
        database: Database | None = None,
    ) -> None:
        """``guard`` returns what checks a person's answers now."""
        self.settings = settings
        self.loop = loop or process_loop()
        self.database: Database = database or open_database(
            settings.database, pool_size=settings.database_pool_size, max_overflow=settings.database_max_overflow
        )
        parts = settings, self.database, self.loop
        self.live = Live(*parts, publish)
        self.owner = Owner(*parts, self.live)
        self.clients = Clients(*parts, self.live, guard=guard, control_local=self.owner.lease_manager.control_local)
        self.readers = Readers(self.database, self.loop, self.live.hot_log)
        self.stores = Stores(self.database)

    def close(self) -> None:
        """Publish pending wake-ups, write pending commits and close every connection."""
        self.owner.stop()
        self.live.relay.stop()
        self.loop.call_soon(self.owner.lease_manager.close)
        self.live.close()
        self.owner.commits.close()
        self.database.close()
