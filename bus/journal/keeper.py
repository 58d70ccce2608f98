"""The keeper of a process's leases: beats for all its runs at once, and hears when one is asked to stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from bus.journal.hotlog import HotLog
from bus.journal.leases import Beat, beat, give_back, stops
from bus.journal.writer import RunWriter
from bus.keys import Keys
from bus.loop import ProcessLoop
from config.database import Database
from config.settings import Settings

log = logging.getLogger(__name__)

AGAIN_S = 1.0
"""Seconds to the next heartbeat after one that failed: a database that is back is told in time."""
STOP_POLL_S = 0.5
"""Seconds between two looks for stops in SQL; a nudge on Redis is faster but may be lost."""


class Work(Protocol):
    """What is done for a run, as its keeper sees it. All of it is called on the loop."""

    def stop(self) -> None:
        """Somebody stops the run; asked again, nothing more happens."""

    def release(self) -> None:
        """This process ends soon: let the run go at the end of its current step."""

    def cut(self) -> None:
        """This process ends now: let the run go wherever it is."""

    @property
    def is_within_time(self) -> bool:
        """Whether the current step is within its own deadline; past it, somebody else may take the run."""


@dataclass(slots=True)
class Kept:
    """A run this process owns."""

    writer: RunWriter
    work: Work


class LeaseKeeper:
    """One a process, on its loop."""

    def __init__(
        self,
        owner: str,
        settings: Settings,
        database: Database,
        loop: ProcessLoop,
        hot_log: HotLog,
        keys: Keys,
        on_wake: Callable[[str], None] = lambda run_id: None,
    ) -> None:
        """``on_wake`` is called with each run that was given back and may be taken again."""
        self.owner = owner
        self._settings = settings
        self._database = database
        self._loop = loop
        self._hot_log = hot_log
        self._keys = keys
        self._kept: dict[str, Kept] = {}
        self._is_releasing = self._is_closed = False
        self._given_up: list[tuple[str, int]] = []  # runs with their fences, from when the database was away
        self._on_wake = on_wake
        self._tasks: list[asyncio.Task[None]] = []
        self._nudged = asyncio.Event()
        self._last_good_s = time.monotonic()

    @property
    def busy(self) -> int:
        """How many runs this process works on."""
        return len(self._kept)

    @property
    def is_leaving(self) -> bool:
        """Whether this process lets its runs go, so that it begins no other."""
        return self._is_releasing or self._is_closed

    async def keep(self, writer: RunWriter, work: Work) -> None:
        """Beat for this run from now on, and tell ``work`` what is asked of it."""
        await self._begin()
        self._kept[writer.lease.run_id] = Kept(writer, work)
        if writer.lease.stop_requested:
            work.stop()
        if self._is_releasing:
            work.release()

    def release_all(self) -> None:
        """Have every run let go at the end of its current step, those too that come yet."""
        self._is_releasing = True
        for kept in list(self._kept.values()):
            kept.work.release()

    def cut_all(self) -> None:
        """Have every run let go at once."""
        for kept in list(self._kept.values()):
            kept.work.cut()

    def let_go(self, run_id: str, fence: int | None = None) -> None:
        """Beat for this run no more; with a ``fence``, only if it is this owner of it that is kept."""
        kept = self._kept.get(run_id)
        if kept is not None and fence in (None, kept.writer.lease.fence):
            del self._kept[run_id]

    def stop_here(self, run_id: str) -> bool:
        """Stop a run if this process works on it."""
        kept = self._kept.get(run_id)
        if kept is not None:
            kept.work.stop()
        return kept is not None

    def close(self) -> None:
        """Beat no more for anything; the leases run out by themselves."""
        self._is_closed = True
        for task in self._tasks:
            task.cancel()

    async def _begin(self) -> None:
        if all(kept.writer.is_stale for kept in self._kept.values()):
            self._last_good_s = time.monotonic()  # nobody was beaten for, so the last beat says nothing of a new run
        if self._tasks:
            return
        self._tasks = [self._loop.loop.create_task(self._beats()), self._loop.loop.create_task(self._stops())]
        await self._hot_log.listen(self._keys.nudges, self._heed_nudge)

    def _heed_nudge(self, text: str) -> None:
        verb, _, run_id = text.partition(" ")
        if verb == "stop" and run_id in self._kept:  # a hint anybody could forge: SQL says whether it is true
            self._nudged.set()

    async def _beats(self) -> None:
        pause_s = self._settings.beat_s
        while True:
            await asyncio.sleep(pause_s)
            is_good = (not self._kept or await self._beat()) and await self._give_back()
            pause_s = self._settings.beat_s if is_good else min(self._settings.beat_s, AGAIN_S)

    async def _beat(self) -> bool:
        """Extend the leases of all runs kept, and return whether the database took it."""
        asked, began_s = self._in_time(), time.monotonic()
        if not asked:
            return True
        try:
            async with asyncio.timeout(max(0.0, self._last_good_s + self._silence_s - began_s)):
                owned = [(run_id, kept.writer.lease.fence) for run_id, kept in asked.items()]
                found = await self._loop.write(beat, self._database, self.owner, self._settings.lease_s, owned)
        except Exception as wrong:  # whatever it is, the next beat must come
            log.warning("heartbeat failed: %s: %s", type(wrong).__name__, wrong)
            self.fence_if_silent()
            return False
        self._last_good_s = began_s
        self._heed(asked, found)
        await self._hot_log.keep([b.run_id for b in found])
        return True

    def _in_time(self) -> dict[str, Kept]:
        """Return the runs to beat for; one whose step is over its time is given up to whoever takes it next."""
        for run_id, kept in self._kept.items():
            if not kept.work.is_within_time and not kept.writer.is_stale:
                log.error("a step is over its own time and does not end; the run is given up run_id=%s", run_id)
                kept.writer.lost_ownership("is given up: its step does not end")
        return {run_id: kept for run_id, kept in self._kept.items() if not kept.writer.is_stale}

    def _heed(self, asked: dict[str, Kept], found: list[Beat]) -> None:
        """Tell the writers whose runs belong to somebody else, or were asked to stop."""
        still = {b.run_id: b for b in found}
        for run_id, kept in asked.items():
            if self._kept.get(run_id) is not kept or kept.writer.is_closed:
                continue
            seen = still.get(run_id)
            if seen is None:
                kept.writer.lost_ownership()
            elif seen.stop_requested:
                kept.work.stop()

    @property
    def _silence_s(self) -> float:
        """How old the last good beat may be: a third of the lease is left then."""
        return self._settings.lease_s * 2 / 3

    def fence_if_silent(self) -> None:
        """Stop writing everywhere when the leases may have run out without our knowing; costs nothing to ask.

        A process that was stopped for a while and goes on learns it here, before its next heartbeat.
        """
        if time.monotonic() - self._last_good_s >= self._silence_s:
            for run_id, kept in list(self._kept.items()):
                if not kept.writer.is_stale:
                    self._given_up.append((run_id, kept.writer.lease.fence))
                    kept.writer.lost_ownership("is given up: no heartbeat came through in time")

    def gives_back(self, run_id: str) -> bool:
        """Return whether this run was given up here and is about to go back to the queue."""
        return any(run_id == given for given, _ in self._given_up)

    async def _give_back(self) -> bool:
        """Send what was given up while the database was away back to the queue; return whether nothing is left."""
        if not self._given_up:
            return True
        owned = list(self._given_up)
        try:
            returned = await self._loop.write(give_back, self._database, owned)
        except Exception as wrong:  # whatever it is, the next try must come
            log.warning("runs could not be given back yet: %s: %s", type(wrong).__name__, wrong)
            return False
        self._given_up = [one for one in self._given_up if one not in owned]
        for run_id in returned:
            self._on_wake(run_id)
        return True

    async def _stops(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STOP_POLL_S):
                    await self._nudged.wait()
            was_nudged = self._nudged.is_set()
            self._nudged.clear()
            if self._kept:
                await self._look_for_stops()
            if was_nudged:  # the first nudge is looked at at once; no flood of them makes this ask more often
                await asyncio.sleep(STOP_POLL_S)

    async def _look_for_stops(self) -> None:
        try:
            wanted = await self._loop.read(stops, self._database, self.owner)
        except Exception as wrong:  # whatever it is, the next look must come
            log.warning("looking for stops failed: %s: %s", type(wrong).__name__, wrong)
            return
        for run_id in wanted:
            self.stop_here(run_id)
