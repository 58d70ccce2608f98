"""The journal of one process: its database and its loop, and what each actor does with them."""

from __future__ import annotations

from collections.abc import Callable

from bus.journal.actors.clients import Clients
from bus.journal.actors.live import Live
from bus.journal.actors.owner import Owner
from bus.journal.actors.readers import Readers
from bus.journal.actors.stores import Stores
from bus.journal.decisions.guarded_answer import Guard
from bus.journal.outbox import Publish
from bus.loop import ProcessLoop, process_loop
from config.database.engine import Database, open_database
from config.settings import Settings


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
