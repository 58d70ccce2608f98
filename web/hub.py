"""All viewers of one process: counted, kept awake, and dropped when they do not read. Lives on the loop."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bus.journal.who import Who
from config.errors import Overloaded
from web.backlog import Backlog
from web.feeds.board import BoardFeed
from web.feeds.run import RunFeed
from web.sse import BEAT, Viewer

if TYPE_CHECKING:
    from bus.journal.journal import Journal

log = logging.getLogger(__name__)

MAX_VIEWERS = 10_000
SPARE_FILES = 768
"""Descriptors kept for everything but viewers: 512 connections (web/gunicorn_conf.py), databases, files."""
BEAT_S = 15.0
STUCK_S = 12.0
"""How long a viewer may leave what it was sent unread; looked at every ``LOOK_S``, so 15 s at most."""
LOOK_S = 2.0
PAGES_AT_ONCE = 1
"""Pages of logs read for viewers at once: each takes some four times its size for a moment."""
SLICE = 200
"""Viewers beaten for before the loop does other things."""


class Hub:
    """One a process; feeds are made when first watched and go when nobody watches."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.viewers: set[Viewer] = set()
        self.stuck: set[Viewer] = set()
        self.backlog = Backlog()
        self.reading_pages = asyncio.Semaphore(PAGES_AT_ONCE)
        self.max_viewers = min(MAX_VIEWERS, _open_files() - SPARE_FILES)
        self._loop = journal.loop.loop
        self._runs: dict[str, RunFeed] = {}
        self._boards: dict[Who, BoardFeed] = {}
        self._hears_nudges = False
        self._keeping: list[asyncio.Task[None]] = []

    # --- from any thread

    def require_room(self) -> None:
        """One viewer more can be served.

        Raises:
            Overloaded: this process serves as many as it can.
        """
        if len(self.viewers) >= self.max_viewers:
            raise Overloaded(
                f"this server streams to {self.max_viewers:,} viewers already; try again in a moment, or read pages "
                "with Accept: application/json.",
                retry_after_s=5,
            )

    def call_soon(self, function: Callable[[], Any]) -> None:
        """Call ``function`` on the loop."""
        self._loop.call_soon_threadsafe(function)

    def welcome(self, taken: socket.socket, viewer: Viewer) -> None:
        """Serve the viewer on this socket from now on."""

        async def connect() -> None:
            try:
                await self._loop.connect_accepted_socket(lambda: viewer, taken)
            except OSError as wrong:  # it left in the meantime
                log.debug("viewer left before it was served: %s", wrong)
                taken.close()

        self.journal.loop.submit(connect())

    def close(self) -> None:
        """Send every viewer away; they come back to another process by their cursors."""
        self.journal.loop.run(self._close(), 5)

    # --- on the loop

    def now(self) -> float:
        """Return the loop's clock, in seconds."""
        return self._loop.time()

    def run_feed(self, run_id: str, thread_id: str) -> RunFeed:
        """Return the one feed of a run."""
        feed = self._runs.get(run_id)
        if feed is None:
            feed = self._runs[run_id] = RunFeed(self, run_id, thread_id)
        return feed

    def board_feed(self, who: Who) -> BoardFeed:
        """Return the one board of somebody."""
        feed = self._boards.get(who)
        if feed is None:
            feed = self._boards[who] = BoardFeed(self, who)
        return feed

    def forget_run(self, feed: RunFeed) -> None:
        """A later viewer of the run gets a new feed."""
        if self._runs.get(feed.run_id) is feed:
            del self._runs[feed.run_id]

    def forget_board(self, feed: BoardFeed) -> None:
        """A later viewer gets a new board."""
        if self._boards.get(feed.who) is feed:
            del self._boards[feed.who]

    async def hear_nudges(self) -> None:
        """Boards are told when something changed; asked again, nothing more happens."""
        if not self._hears_nudges:
            self._hears_nudges = True
            await self.journal.hot_log.listen(self.journal.keys.board, self._on_nudge)

    def add(self, viewer: Viewer) -> None:
        """Keep this viewer awake."""
        self.viewers.add(viewer)
        if not self._keeping:
            self._keeping = [self._loop.create_task(self._beat()), self._loop.create_task(self._drop_stuck())]

    def remove(self, viewer: Viewer) -> None:
        """This viewer is gone."""
        self.viewers.discard(viewer)
        self.stuck.discard(viewer)
        self.backlog.release(viewer)
        if not self.viewers:
            for task in self._keeping:
                task.cancel()
            self._keeping = []

    def _on_nudge(self, _run_id: str) -> None:
        for board in self._boards.values():
            board.nudge()

    async def _beat(self) -> None:
        """Say something now and then: proxies keep the line, and a dead client is noticed."""
        while True:
            await asyncio.sleep(BEAT_S)
            for number, viewer in enumerate(tuple(self.viewers)):
                if not viewer.stuck_since and not viewer.is_gone:
                    viewer.write(BEAT)
                if number % SLICE == SLICE - 1:
                    await asyncio.sleep(0)

    async def _drop_stuck(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            too_long = self.now() - STUCK_S
            for viewer in [viewer for viewer in self.stuck if viewer.stuck_since < too_long]:
                log.info("viewer dropped: it did not read for %s s", STUCK_S)
                viewer.drop()

    async def _close(self) -> None:
        for viewer in tuple(self.viewers):
            viewer.drop()
        for feed in tuple(self._runs.values()):
            feed.stop()
        for board in tuple(self._boards.values()):
            board.stop()
        await asyncio.sleep(0)


def _open_files() -> int:
    """Allow this process as many open files as it may have, and return how many that is."""
    try:
        import resource
    except ImportError:  # Windows
        return MAX_VIEWERS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_VIEWERS + SPARE_FILES
    most = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        return most
    return wanted if soft == resource.RLIM_INFINITY else soft
