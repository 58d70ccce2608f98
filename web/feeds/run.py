"""One run's log, read once for all its viewers of this process."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from bus.journal.line import Line
from bus.journal.pages import PAGE_BYTES
from bus.journal.reader import Merge
from config.errors import CallboardError, Retryable, RunUnknown
from web.feeds.page import SLICE_BYTES, Page
from web.sse import Frame, Viewer, frame

if TYPE_CHECKING:
    from web.hub import Hub

log = logging.getLogger(__name__)

RING_EVENTS, RING_BYTES = 512, 256 * 1024
"""What a feed keeps for viewers that come, or come back, a little later."""
LINGER_S = 5.0
"""How long a feed goes on without viewers: a page that is reloaded comes back to it."""
PATIENCE_S = 0.5
AWAY_S = 1.0
"""Seconds between two looks for a viewer's page while the database is away; the viewer stays."""


class RunFeed:
    """Frames are built once; a viewer that is up to date shares them with all others.

    A viewer behind the ring reads pages on its own until it gets there, at the pace it reads itself.
    """

    def __init__(self, hub: Hub, run_id: str, thread_id: str) -> None:
        self.run_id = run_id
        self._hub = hub
        self._journal = hub.journal
        self._thread_id = thread_id
        self._viewers: set[Viewer] = set()
        self._live: set[Viewer] = set()
        self._ahead: dict[Viewer, int] = {}
        self._ring: deque[Frame] = deque()
        self._ring_bytes = 0
        self._floor = 0
        self._last = 0
        self._reading: asyncio.Task[None] | None = None
        self._pages: dict[int, asyncio.Task[Page]] = {}
        self._full_pages: WeakValueDictionary[int, Page] = WeakValueDictionary()
        """By cursor: pages that will not change, as long as a viewer reads them."""

    # --- viewers (Stream)

    def attach(self, viewer: Viewer) -> None:
        self._viewers.add(viewer)
        self.drained(viewer)

    def detach(self, viewer: Viewer) -> None:
        self._viewers.discard(viewer)
        self._live.discard(viewer)
        self._ahead.pop(viewer, None)
        if not self._viewers:
            asyncio.get_running_loop().call_later(LINGER_S, self._stop_unwatched)

    def choked(self, viewer: Viewer) -> None:
        if viewer in self._live:
            self._live.discard(viewer)
            viewer.cursor = self._last
        self._ahead.pop(viewer, None)  # its cursor is its own still

    def drained(self, viewer: Viewer) -> None:
        self._hub.backlog.release(viewer)
        if viewer.task is None and not self._join(viewer):
            viewer.task = asyncio.get_running_loop().create_task(self._catch_up(viewer))

    def stop(self) -> None:
        """Read no more."""
        self._hub.forget_run(self)
        if self._reading is not None:
            self._reading.cancel()

    def _stop_unwatched(self) -> None:
        if not self._viewers:
            self.stop()

    def _join(self, viewer: Viewer) -> bool:
        """Let the viewer go on with the others if the ring has everything it has not seen."""
        if self._reading is None or self._reading.done() or viewer.cursor < self._floor:
            return False
        missed = [data for number, data in self._ring if number > viewer.cursor]
        if viewer.cursor > self._last:
            self._ahead[viewer] = viewer.cursor
        else:
            self._live.add(viewer)  # before the write, which may say that this was too much
        for data in missed:
            viewer.write(data)
        return True

    async def _catch_up(self, viewer: Viewer) -> None:
        earlier: Sequence[Frame] = ()
        try:
            while not viewer.is_gone:
                try:
                    page = await self._page(viewer.cursor)
                except Retryable as wrong:
                    log.info("viewer waits for the database: %s", wrong, extra={"run_id": self.run_id})
                    await asyncio.sleep(AWAY_S)
                    continue
                await self._write(viewer, page)
                if page.is_over:
                    viewer.finish()
                    return
                if page.is_near:
                    self._begin(viewer.cursor, page.frames or earlier)
                if self._join(viewer):
                    self._hub.backlog.release(viewer)
                    return
                if not page.frames:  # what it misses is on its way into SQL
                    await asyncio.sleep(PATIENCE_S)
                earlier = page.frames if page.is_near else ()
        except CallboardError as wrong:
            log.warning("viewer dropped: %s", wrong, extra={"run_id": self.run_id})
            viewer.drop()
        except Exception:
            log.exception("viewer dropped", extra={"run_id": self.run_id})
            viewer.drop()
        finally:
            viewer.task = None

    async def _write(self, viewer: Viewer, page: Page) -> None:
        """Write the page at the pace the viewer reads."""
        for data, last in page.slices:
            viewer.write(data)
            viewer.cursor = last
            if viewer.stuck_since:
                self._hub.backlog.hold(viewer, page, page.size)
                if page.is_over and last == page.slices[-1][1]:
                    return  # what closes the connection needs no room
                await viewer.room()
                if viewer.is_gone:
                    return

    # --- pages

    async def _page(self, cursor: int) -> Page:
        """Return what stands behind ``cursor``, read once for all that ask while one of them reads it."""
        full = self._full_pages.get(cursor)
        if full is not None:
            return full
        reading = self._pages.get(cursor)
        if reading is None:
            reading = self._pages[cursor] = asyncio.get_running_loop().create_task(self._read_page(cursor))
            reading.add_done_callback(lambda done: self._forget_page(cursor, done))
        return await asyncio.shield(reading)

    def _forget_page(self, cursor: int, done: asyncio.Task[Page]) -> None:
        self._pages.pop(cursor, None)
        if not done.cancelled():
            done.exception()  # those who still wait hear of it; nobody may be left

    async def _read_page(self, cursor: int) -> Page:
        loop, journal = self._journal.loop, self._journal
        async with self._hub.reading_pages:
            lines = await loop.read(journal.page, self.run_id, self._thread_id, cursor)
            is_full = sum(len(line.data) for line in lines) >= PAGE_BYTES
            hot = [] if is_full else await journal.hot_log.read_after(self.run_id, lines[-1].seq if lines else cursor)
            page = Page([(line.seq, frame(line)) for line in Merge(cursor).offer(lines + hot)])
        if not page.is_near or page.is_over:
            self._full_pages[cursor] = page
        return page

    # --- the one reader

    def _begin(self, cursor: int, earlier: Sequence[Frame]) -> None:
        """Read on from ``cursor``, where somebody has arrived, unless this feed reads already.

        The page they read last, ``earlier``, is kept for those who come next: most runs are one page.
        """
        if self._reading is None or self._reading.done():
            self._ring.clear()
            self._ring_bytes, self._last, self._floor = 0, cursor, cursor
            if earlier:
                self._floor = earlier[0][0] - 1
                self._keep(earlier)
            self._reading = asyncio.get_running_loop().create_task(self._read())

    async def _read(self) -> None:
        following = self._journal.follow(self.run_id, self._thread_id, self._last, ask_first=False)
        try:
            async with aclosing(following) as batches:
                async for batch in batches:
                    for part in _parts(batch):
                        self._deliver(part)
            for viewer in tuple(self._viewers):
                if viewer in self._live or viewer in self._ahead or viewer.cursor >= self._last:
                    viewer.finish()  # the others find the end in their pages
        except RunUnknown as wrong:  # removed while it was watched; whoever comes back hears so
            log.info("viewers dropped: %s", wrong, extra={"run_id": self.run_id})
            for viewer in (*self._live, *self._ahead):
                viewer.drop()
        except Exception:
            log.exception("feed broke off; its viewers resume by their cursors", extra={"run_id": self.run_id})
            for viewer in (*self._live, *self._ahead):
                viewer.drop()
        finally:
            self._hub.forget_run(self)

    def _deliver(self, batch: Sequence[Line]) -> None:
        frames = [(line.seq, frame(line)) for line in batch]
        data = frames[0][1] if len(frames) == 1 else b"".join(data for _, data in frames)
        self._last = frames[-1][0]
        self._keep(frames)
        for viewer in tuple(self._live):
            viewer.write(data)
        if len(data) > SLICE_BYTES:
            self._hold(data)
        if self._ahead:
            self._deliver_ahead(frames)

    def _hold(self, data: bytes) -> None:
        """Count a large frame with those that could not take it."""
        for viewer in tuple(self._viewers - self._live):
            if viewer.stuck_since and viewer.cursor == self._last:
                self._hub.backlog.hold(viewer, data, len(data))

    def _deliver_ahead(self, frames: Sequence[Frame]) -> None:
        """Send those whose own pages were ahead of this feed only what they have not seen."""
        for viewer, cursor in tuple(self._ahead.items()):
            if self._last < cursor:
                continue
            del self._ahead[viewer]
            self._live.add(viewer)
            unseen = [data for number, data in frames if number > cursor]
            if unseen:
                viewer.write(b"".join(unseen))

    def _keep(self, frames: Sequence[Frame]) -> None:
        self._ring.extend(frames)
        self._ring_bytes += sum(len(data) for _, data in frames)
        while len(self._ring) > RING_EVENTS or self._ring_bytes > RING_BYTES:
            self._floor, oldest = self._ring.popleft()
            self._ring_bytes -= len(oldest)


def _parts(batch: Sequence[Line]) -> Iterator[Sequence[Line]]:
    """Yield the batch, or its lines one by one where joining them would copy much."""
    if len(batch) > 1 and sum(len(line.data) for line in batch) > SLICE_BYTES:
        yield from ([line] for line in batch)
    else:
        yield batch
