"""The feeds of one process and the viewers that watch them. Lives on the loop."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from config.identity.principal import Principal
from web.auth.validity import ended
from web.feeds.board import BoardFeed
from web.feeds.page import PageReader
from web.feeds.run import RunFeed
from web.feeds.viewers import Viewers

if TYPE_CHECKING:
    from bus.journal import Journal


class Hub:
    """One per process; a feed is made when it is first watched and ends with its last viewer."""

    def __init__(self, journal: Journal) -> None:
        has_ended = partial(ended, journal.database, rules=journal.settings.tls_principals)
        self.viewers = Viewers(journal.loop, has_ended, journal.settings.limit)
        self._journal = journal
        self._pages = PageReader(journal)
        self._runs: dict[str, RunFeed] = {}
        self._boards: dict[Principal, BoardFeed] = {}
        self._subscribing: asyncio.Task[None] | None = None

    def close(self) -> None:
        """Disconnect every viewer; to be called on any thread but the loop's."""
        self._journal.loop.run(self._close(), 5)

    def run_feed(self, run_id: str, thread_id: str) -> RunFeed:
        """Return the one feed of a run."""
        if run_id not in self._runs:
            self._runs[run_id] = RunFeed(
                run_id, thread_id, self._journal, self._pages, self.viewers.backlog, on_stopped=self._forget
            )
        return self._runs[run_id]

    def board_feed(self, principal: Principal) -> BoardFeed:
        """Return the one board of a principal."""
        if principal not in self._boards:
            self._boards[principal] = BoardFeed(
                principal, self._journal, subscribe=self._subscribe, on_stopped=self._forget
            )
        return self._boards[principal]

    def _forget(self, feed: RunFeed | BoardFeed) -> None:
        if isinstance(feed, RunFeed) and self._runs.get(feed.run_id) is feed:
            del self._runs[feed.run_id]
        if isinstance(feed, BoardFeed) and self._boards.get(feed.principal) is feed:
            del self._boards[feed.principal]

    async def _subscribe(self) -> None:
        """Subscribe to hints about changes for the boards, once; a board that ends meanwhile does not cancel it."""
        if self._subscribing is None:
            listening = self._journal.hot_log.listen(self._journal.keys.board, self._on_nudge)
            self._subscribing = asyncio.get_running_loop().create_task(listening)
        await asyncio.shield(self._subscribing)

    def _on_nudge(self, _run_id: str) -> None:
        for board in self._boards.values():
            board.nudge()

    async def _close(self) -> None:
        self.viewers.drop_all()
        feeds: list[RunFeed | BoardFeed] = [*self._runs.values(), *self._boards.values()]
        for feed in feeds:
            feed.stop()
        await asyncio.sleep(0)
