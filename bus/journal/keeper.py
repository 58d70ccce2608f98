"""The keeper of a process's leases: beats for all its runs at once, and hears when one is asked to stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from bus.journal.hotlog import HotLog
from bus.journal.leases import Beat, beat, stops
from bus.journal.writer import RunWriter
from bus.keys import Keys
from bus.loop import ProcessLoop
from config.database import Database
from config.settings import Settings

log = logging.getLogger(__name__)

STOP_POLL_S = 0.5
"""Seconds between two looks for stops in SQL; a nudge on Redis is faster but may be lost."""


@dataclass(slots=True)
class Kept:
    """A run this process owns."""

    writer: RunWriter
    on_stop: Callable[[], None]


class LeaseKeeper:
    """One a process, on its loop."""

    def __init__(
        self, owner: str, settings: Settings, database: Database, loop: ProcessLoop, hot_log: HotLog, keys: Keys
    ) -> None:
        self.owner = owner
        self._settings = settings
        self._database = database
        self._loop = loop
        self._hot_log = hot_log
        self._keys = keys
        self._kept: dict[str, Kept] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._nudged = asyncio.Event()
        self._last_good_s = time.monotonic()

    @property
    def busy(self) -> int:
        """How many runs this process works on."""
        return len(self._kept)

    async def keep(self, writer: RunWriter, on_stop: Callable[[], None]) -> None:
        """Beat for this run from now on; ``on_stop`` is called on the loop once somebody stops it."""
        await self._begin()
        self._kept[writer.lease.run_id] = Kept(writer, on_stop)
        if writer.lease.stop_requested:
            on_stop()

    def let_go(self, run_id: str, fence: int | None = None) -> None:
        """Beat for this run no more; with a ``fence``, only if it is this owner of it that is kept."""
        kept = self._kept.get(run_id)
        if kept is not None and fence in (None, kept.writer.lease.fence):
            del self._kept[run_id]

    def stop_here(self, run_id: str) -> bool:
        """Stop a run if this process works on it."""
        kept = self._kept.get(run_id)
        if kept is not None:
            kept.on_stop()
        return kept is not None

    def close(self) -> None:
        """Beat no more for anything; the leases run out by themselves."""
        for task in self._tasks:
            task.cancel()

    async def _begin(self) -> None:
        if not self._kept:
            self._last_good_s = time.monotonic()
        if self._tasks:
            return
        self._tasks = [self._loop.loop.create_task(self._beats()), self._loop.loop.create_task(self._stops())]
        await self._hot_log.listen(self._keys.nudges, self._heed_nudge)

    def _heed_nudge(self, text: str) -> None:
        verb, _, run_id = text.partition(" ")
        if verb == "stop" and run_id in self._kept:  # a hint anybody could forge: SQL says whether it is true
            self._nudged.set()

    async def _beats(self) -> None:
        while True:
            await asyncio.sleep(self._settings.beat_s)
            if self._kept:
                await self._beat()

    async def _beat(self) -> None:
        asked, began_s = dict(self._kept), time.monotonic()
        try:
            async with asyncio.timeout(max(0.0, self._last_good_s + self._silence_s - began_s)):
                found = await self._loop.write(beat, self._database, self.owner, self._settings.lease_s, list(asked))
        except Exception as wrong:  # whatever it is, the next beat must come
            log.warning("heartbeat failed: %s: %s", type(wrong).__name__, wrong)
            self._fence_if_silent()
            return
        self._last_good_s = began_s
        self._heed(asked, found)
        await self._hot_log.keep([b.run_id for b in found])

    def _heed(self, asked: dict[str, Kept], found: list[Beat]) -> None:
        """Tell the writers whose runs belong to somebody else, or were asked to stop."""
        still = {b.run_id: b for b in found}
        for run_id, kept in asked.items():
            if self._kept.get(run_id) is not kept or kept.writer.is_closed:
                continue
            seen = still.get(run_id)
            if seen is None or seen.fence != kept.writer.lease.fence:
                kept.writer.lost_ownership()
            elif seen.stop_requested:
                kept.on_stop()

    @property
    def _silence_s(self) -> float:
        """How old the last good beat may be: a third of the lease is left then."""
        return self._settings.lease_s * 2 / 3

    def _fence_if_silent(self) -> None:
        """Stop writing everywhere when the leases may have run out without our knowing."""
        if time.monotonic() - self._last_good_s >= self._silence_s:
            for kept in list(self._kept.values()):
                kept.writer.lost_ownership()

    async def _stops(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STOP_POLL_S):
                    await self._nudged.wait()
            self._nudged.clear()
            if self._kept:
                await self._look_for_stops()

    async def _look_for_stops(self) -> None:
        try:
            wanted = await self._loop.read(stops, self._database, self.owner)
        except Exception as wrong:  # whatever it is, the next look must come
            log.warning("looking for stops failed: %s: %s", type(wrong).__name__, wrong)
            return
        for run_id in wanted:
            self.stop_here(run_id)
