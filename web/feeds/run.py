"""The feed of one run: its log is read once for all viewers of this process."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from bus.journal.errors import RunUnknown
from config.errors import CallboardError, Retryable
from web.feeds.backlog import Backlog
from web.feeds.page import SLICE_BYTES, Frame, Page, PageReader, frame
from web.feeds.viewers import Stream, Viewer

if TYPE_CHECKING:
    from bus.journal import Journal
    from bus.journal.readers import Line

log = logging.getLogger(__name__)

RING_EVENTS, RING_BYTES = 512, 256 * 1024
"""Events and bytes that a feed keeps for viewers that connect, or reconnect, a little later."""
LINGER_S = 5.0
"""Seconds for which a feed continues without viewers, so that a reloaded page finds it."""
EMPTY_PAGE_S = 0.5
DATABASE_RETRY_S = 1.0
"""Seconds between two attempts to read a viewer's page while the database is unreachable; the viewer stays."""


class RunFeed(Stream):
    """Builds each frame once and shares it among the viewers that are up to date.

    A viewer that is behind the ring reads pages of its own, at its own pace, until it reaches the ring.
    """

    def __init__(
        self,
        tenant: str,
        run_id: str,
        thread_id: str,
        journal: Journal,
        page_reader: PageReader,
        backlog: Backlog,
        *,
        on_stopped: Callable[[RunFeed], None],
    ) -> None:
        self._tenant = tenant
        self.run_id = run_id
        self._thread_id = thread_id
        self._journal = journal
        self._page_reader = page_reader
        self._backlog = backlog
        self._on_stopped = on_stopped
        self._viewers: set[Viewer] = set()
        self._live: set[Viewer] = set()
        self._ahead: dict[Viewer, int] = {}
        self._ring: deque[Frame] = deque()
        self._ring_bytes = 0
        self._floor = 0
        self._last = 0
        self._is_database_away = False
        self._reading: asyncio.Task[None] | None = None
        self._pages: dict[int, asyncio.Task[Page]] = {}
        self._full_pages: WeakValueDictionary[int, Page] = WeakValueDictionary()
        """By cursor: pages that will not change, as long as a viewer reads them."""

    # --- viewers (Stream)

    def attach(self, viewer: Viewer) -> None:
        self._viewers.add(viewer)
        self.resumed(viewer)

    def detach(self, viewer: Viewer) -> None:
        self._viewers.discard(viewer)
        self._live.discard(viewer)
        self._ahead.pop(viewer, None)
        if not self._viewers:
            asyncio.get_running_loop().call_later(LINGER_S, self._stop_unwatched)

    def paused(self, viewer: Viewer) -> None:
        if viewer in self._live:
            self._live.discard(viewer)
            viewer.cursor = self._last
        self._ahead.pop(viewer, None)  # the viewer keeps its cursor

    def resumed(self, viewer: Viewer) -> None:
        self._backlog.release(viewer)
        if viewer.task is None and not self._join(viewer):
            viewer.task = asyncio.get_running_loop().create_task(self._catch_up(viewer))

    def stop(self) -> None:
        self._on_stopped(self)
        if self._reading is not None:
            self._reading.cancel()

    def _stop_unwatched(self) -> None:
        if not self._viewers:
            self.stop()

    def _join(self, viewer: Viewer) -> bool:
        """Add the viewer to the live ones if the ring has everything after its cursor."""
        if self._reading is None or self._reading.done() or viewer.cursor < self._floor:
            return False
        missed = [data for number, data in self._ring if number > viewer.cursor]
        if viewer.cursor > self._last:
            self._ahead[viewer] = viewer.cursor
        else:
            self._live.add(viewer)  # before the write, which may pause this viewer
        for data in missed:
            viewer.write(data)
        return True

    async def _catch_up(self, viewer: Viewer) -> None:
        earlier: Sequence[Frame] = ()
        try:
            while not viewer.is_gone:
                try:
                    page = await self._page(viewer.cursor)
                except Retryable as error:
                    self._note_outage(error)
                    await asyncio.sleep(DATABASE_RETRY_S)
                    continue
                self._is_database_away = False
                await self._write(viewer, page)
                if page.is_over:
                    viewer.finish()
                    return
                if page.is_near:
                    self._begin(viewer.cursor, page.frames or earlier)
                if self._join(viewer):
                    self._backlog.release(viewer)
                    return
                if not page.frames:  # the missing events are not in SQL yet
                    await asyncio.sleep(EMPTY_PAGE_S)
                earlier = page.frames if page.is_near else ()
        except CallboardError as error:
            log.warning("viewer dropped: %s", error, extra=viewer.log_fields | {"run_id": self.run_id})
            viewer.drop()
        except Exception:
            log.exception("viewer dropped", extra=viewer.log_fields | {"run_id": self.run_id})
            viewer.drop()
        finally:
            viewer.task = None

    def _note_outage(self, error: Retryable) -> None:
        """Log once per outage, however many viewers wait and ask again each second."""
        if not self._is_database_away:
            log.info("viewers wait for the database: %s", error, extra={"run_id": self.run_id})
        self._is_database_away = True

    async def _write(self, viewer: Viewer, page: Page) -> None:
        """Write the page at the pace at which the viewer reads."""
        for data, last in page.slices:
            viewer.write(data)
            viewer.cursor = last
            if viewer.stuck_since:
                self._backlog.hold(viewer, page, page.size)
                if page.is_over and last == page.slices[-1][1]:
                    return  # closing the connection needs no room
                await viewer.room()
                if viewer.is_gone:
                    return

    # --- pages

    async def _page(self, cursor: int) -> Page:
        """Return the page after ``cursor``, read once for concurrent callers."""
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
            done.exception()  # marked as retrieved: it is raised in each waiting viewer, if there is one

    async def _read_page(self, cursor: int) -> Page:
        page = await self._page_reader.read(self._tenant, self.run_id, self._thread_id, cursor)
        if not page.is_near or page.is_over:
            self._full_pages[cursor] = page
        return page

    # --- the one reader

    def _begin(self, cursor: int, earlier: Sequence[Frame]) -> None:
        """Start to read from ``cursor``, which a viewer has reached, unless this feed reads already.

        The viewer's last page, ``earlier``, is kept for later viewers, since most runs have one page.
        """
        if self._reading is None or self._reading.done():
            self._ring.clear()
            self._ring_bytes, self._last, self._floor = 0, cursor, cursor
            if earlier:
                self._floor = earlier[0][0] - 1
                self._keep(earlier)
            self._reading = asyncio.get_running_loop().create_task(self._read())

    async def _read(self) -> None:
        where = self._tenant, self.run_id, self._thread_id
        following = self._journal.readers.follow(*where, self._last, read_first=False)
        try:
            async with aclosing(following) as batches:
                async for batch in batches:
                    for part in _parts(batch):
                        self._deliver(part)
            for viewer in tuple(self._viewers):
                if viewer in self._live or viewer in self._ahead or viewer.cursor >= self._last:
                    viewer.finish()  # the others get the end with their pages
        except RunUnknown as error:  # removed while it was watched; a client that reconnects gets the error
            log.info("viewers dropped: %s", error, extra={"run_id": self.run_id})
            for viewer in (*self._live, *self._ahead):
                viewer.drop()
        except Exception:
            log.exception("feed failed; its viewers resume by their cursors", extra={"run_id": self.run_id})
            for viewer in (*self._live, *self._ahead):
                viewer.drop()
        finally:
            self._on_stopped(self)

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
        """Count a large frame in the backlog of the viewers that have not read it."""
        for viewer in tuple(self._viewers - self._live):
            if viewer.stuck_since and viewer.cursor == self._last:
                self._backlog.hold(viewer, data, len(data))

    def _deliver_ahead(self, frames: Sequence[Frame]) -> None:
        """Send viewers whose own pages were ahead of this feed only the events after their cursors."""
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
