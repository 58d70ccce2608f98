"""The board: everybody's view of the runs they may see, one query for all who look at the same ones."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import orjson

from bus.journal.line import Line
from bus.journal.runs import board
from bus.journal.who import Who
from config.errors import CallboardError
from web.sse import Viewer, frame

if TYPE_CHECKING:
    from web.hub import Hub

log = logging.getLogger(__name__)

POLL_S = 2.0
"""How often SQL is asked although nobody said that something changed: hints may be lost."""
GATHER_S = 0.1
"""How long hints are gathered; changes come in swarms."""
LEAST_S = 0.4
"""How long after a look the next one may begin to gather; hints may be forged, and come in floods."""
SHARE = 10
"""The board asks SQL for at most a tenth of the time."""


class BoardFeed:
    """A ``snapshot`` first, then a ``run`` for each summary that changed. Numbers only grow within a process."""

    def __init__(self, hub: Hub, who: Who) -> None:
        self.who = who
        self._hub = hub
        self._viewers: set[Viewer] = set()
        self._live: set[Viewer] = set()
        self._known: dict[str, bytes] = {}
        self._number = 0
        self._is_away = False  # said once an outage
        self._snapshot: bytes | None = None
        self._changed = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None

    # --- viewers (Stream)

    def attach(self, viewer: Viewer) -> None:
        self._viewers.add(viewer)
        if self._watching is None:
            self._watching = asyncio.get_running_loop().create_task(self._watch())
        self.drained(viewer)

    def detach(self, viewer: Viewer) -> None:
        self._viewers.discard(viewer)
        self._live.discard(viewer)
        if not self._viewers:
            self.stop()

    def choked(self, viewer: Viewer) -> None:
        self._live.discard(viewer)

    def drained(self, viewer: Viewer) -> None:
        if self._number:  # else the first look sends it
            self._live.add(viewer)
            viewer.write(self._whole())
            self.nudge()

    def nudge(self) -> None:
        """Something may have changed."""
        self._changed.set()

    def stop(self) -> None:
        """Look no more."""
        self._hub.forget_board(self)
        if self._watching is not None:
            self._watching.cancel()

    # --- looking

    async def _watch(self) -> None:
        try:
            await self._hub.hear_nudges()
            while True:
                began = self._hub.now()
                await self._look()
                await asyncio.sleep(max(LEAST_S, (self._hub.now() - began) * SHARE))
                await self._wait()
        except Exception:
            log.exception("board broke off; its viewers come back")
            self._hub.forget_board(self)
            for viewer in tuple(self._viewers):
                viewer.drop()

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(POLL_S):
                await self._changed.wait()
            await asyncio.sleep(GATHER_S)
        except TimeoutError:
            pass
        self._changed.clear()

    async def _look(self) -> None:
        try:
            found = await self._hub.journal.loop.read(self._read)
        except CallboardError as wrong:
            if not self._is_away:
                log.warning("board not refreshed until the database answers: %s", wrong)
            self._is_away = True
            return
        self._is_away = False
        is_first = not self._number
        fresh = [data for run_id, data in found.items() if self._known.get(run_id) != data]
        is_gone = found.keys() < self._known.keys()  # a run was removed: whoever comes now must not see it
        self._known = found
        if fresh or is_first or is_gone:
            self._snapshot = None
        if is_first:
            self._number = 1
            for viewer in tuple(self._viewers):
                self._live.add(viewer)
                viewer.write(self._whole())
        elif fresh:
            self._tell(fresh)

    def _read(self) -> dict[str, bytes]:
        with self._hub.journal.read() as connection:
            rows = board(connection, self.who)
        return {row["run_id"]: orjson.dumps(row) for row in rows}

    def _tell(self, fresh: list[bytes]) -> None:
        frames = []
        for data in reversed(fresh):  # the newest run last, as it would have come
            self._number += 1
            frames.append(frame(Line(self._number, "run", data)))
        joined = b"".join(frames)
        for viewer in tuple(self._live):
            viewer.write(joined)

    def _whole(self) -> bytes:
        if self._snapshot is None:
            runs = b'{"runs":[%s]}' % b",".join(self._known.values())
            self._snapshot = frame(Line(self._number, "snapshot", runs))
        return self._snapshot
