"""The feeds of one process and the viewers that watch them. Lives on the loop."""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from bus.identity.validity import ended
from config.identity.principal import Principal
from web.feeds.board import BoardFeed, TenantBoards
from web.feeds.page import PageReader
from web.feeds.run import RunFeed
from web.feeds.viewer_counts import Reports, ViewerCounts
from web.feeds.viewers import Viewers

if TYPE_CHECKING:
    from bus.journal import Journal


CLOSE_S = 2.0
"""Seconds that the end of a process waits for its streams."""


class Hub:
    """One per process; a feed is made when it is first watched and ends with its last viewer."""

    def __init__(self, journal: Journal) -> None:
        has_ended = partial(ended, journal.database, rules=journal.settings.tls_principals)
        reports = Reports(journal.live.keys, journal.settings.redis_url)
        self.viewers = Viewers(journal.loop, has_ended, ViewerCounts(journal.loop, journal.settings.limit, reports))
        self._journal = journal
        self._pages = PageReader(journal)
        self._runs: dict[str, RunFeed] = {}
        self._boards: dict[str, TenantBoards] = {}

    def close(self) -> None:
        """Disconnect every viewer; to be called on any thread but the loop's."""
        self._journal.loop.run(self._close(), CLOSE_S)

    def run_feed(self, tenant: str, run_id: str, thread_id: str) -> RunFeed:
        """Return the one feed of a run of the tenant."""
        if run_id not in self._runs:
            services = self._journal, self._pages, self.viewers.backlog
            self._runs[run_id] = RunFeed(tenant, run_id, thread_id, *services, on_stopped=self._forget_run)
        return self._runs[run_id]

    def board_feed(self, principal: Principal) -> BoardFeed:
        """Return the one board of a principal."""
        if principal.tenant not in self._boards:
            self._boards[principal.tenant] = TenantBoards(self._journal, principal.tenant, self._forget_boards)
        return self._boards[principal.tenant].board(principal)

    def _forget_run(self, feed: RunFeed) -> None:
        if self._runs.get(feed.run_id) is feed:
            del self._runs[feed.run_id]

    def _forget_boards(self, boards: TenantBoards) -> None:
        del self._boards[boards.tenant]

    async def _close(self) -> None:
        self.viewers.drop_all()
        feeds: list[RunFeed | BoardFeed] = [*self._runs.values(), *chain.from_iterable(self._boards.values())]
        for feed in feeds:
            feed.stop()
        await asyncio.sleep(0)
        await self.viewers.counts.close()
