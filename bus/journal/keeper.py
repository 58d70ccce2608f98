"""The keeper of a process's leases: beats for all its runs at once, and hears when one is asked to stop.

Heartbeats have a thread of their own and go before all other writes of the process: a queue of work, a loop that is
blocked or a slow disk delays none of them by more than one group of commits.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from bus.journal.hotlog import HotLog
from bus.journal.leases import Beat, beat, stops
from bus.journal.writer import RunWriter
from bus.keys import Keys
from bus.loop import ProcessLoop
from config.database import Database
from config.settings import Settings

log = logging.getLogger(__name__)

AGAIN_S = 1.0
"""Seconds to the next heartbeat after one that failed: a database that is back is told in time."""
TURNS = 5
"""Turns of the heartbeat's thread in a beat; at each it asks whether the loop answers."""
STOP_POLL_S = 0.5
"""Seconds between two looks for stops in SQL; a nudge on Redis is faster but may be lost."""


class Work(Protocol):
    """What is done for a run, as its keeper sees it. The loop calls all of it but ``is_within_time``."""

    def stop(self) -> None:
        """Somebody stops the run; asked again, nothing more happens."""

    def release(self) -> None:
        """This process ends soon: let the run go at the end of its current step."""

    def cut(self) -> None:
        """This process ends now: let the run go wherever it is."""

    @property
    def is_within_time(self) -> bool:
        """Whether the current step is within its own deadline; past it, somebody else may take the run.

        Asked on the heartbeat's thread, while the loop begins and ends steps.
        """


@dataclass(slots=True)
class Kept:
    """A run this process owns."""

    writer: RunWriter
    work: Work
    is_heard: bool
    """Whether its claim was fresh when it was first kept, or a heartbeat found it since."""


class LeaseKeeper:
    """One a process. Its work is told on the loop; its heartbeats come from a thread."""

    def __init__(
        self,
        owner: str,
        settings: Settings,
        database: Database,
        loop: ProcessLoop,
        hot_log: HotLog,
        keys: Keys,
    ) -> None:
        self.owner = owner
        self._settings = settings
        self._database = database
        self._loop = loop
        self._hot_log = hot_log
        self._keys = keys
        self._kept: dict[str, Kept] = {}
        self._is_releasing = self._is_closed = False
        self._closing = threading.Event()
        self._beating: threading.Thread | None = None
        self._looking: asyncio.Task[None] | None = None
        self._nudged = asyncio.Event()
        self._last_good_s = time.monotonic()
        self._unanswered = 0  # turns since the loop answered
        self._began_s: float | None = None  # since when a heartbeat is on its way

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
        # This process may have been stopped right behind the claim; another one may have the run by now.
        kept = Kept(writer, work, is_heard=time.monotonic() - writer.claimed_s < self._silence_s)
        writer.is_silent = lambda: self.is_silent or not kept.is_heard
        self._kept[writer.lease.run_id] = kept
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

    def keeps(self, run_id: str) -> bool:
        """Return whether this process works on the run, also while its heartbeats fail."""
        return run_id in self._kept

    def close(self) -> None:
        """Beat no more for anything; the leases run out by themselves."""
        self._is_closed = True
        self._closing.set()
        if self._looking is not None:
            self._looking.cancel()

    async def _begin(self) -> None:
        if all(kept.writer.is_stale for kept in self._kept.values()):
            self._last_good_s = time.monotonic()  # nobody was beaten for, so the last beat says nothing of a new run
        if self._beating is not None:
            return
        self._beating = threading.Thread(target=self._beats, name="callboard-beat", daemon=True)
        self._beating.start()
        self._looking = self._loop.loop.create_task(self._stops())
        await self._hot_log.listen(self._keys.nudges, self._heed_nudge)

    def _heed_nudge(self, text: str) -> None:
        verb, _, run_id = text.partition(" ")
        if verb == "stop" and run_id in self._kept:  # a hint anybody could forge: SQL says whether it is true
            self._nudged.set()

    def _beats(self) -> None:
        """Beat until the keeper is closed, on the heartbeat's thread."""
        due_s = time.monotonic() + self._settings.beat_s
        while not self._closing.wait(self._turn_s):
            self._unanswered += 1  # turns, not seconds: while this process is stopped, none pass
            self._loop.call_soon(self._answer)
            if time.monotonic() >= due_s:
                is_good = not self._kept or self._beat()
                due_s = time.monotonic() + (self._settings.beat_s if is_good else min(self._settings.beat_s, AGAIN_S))

    @property
    def _turn_s(self) -> float:
        return min(self._settings.beat_s / TURNS, AGAIN_S)

    def _answer(self) -> None:
        self._unanswered = 0

    def _beat(self) -> bool:
        """Extend the leases of all runs kept, and return whether the database took it."""
        try:
            return self._extend(self._in_time())
        except Exception as wrong:  # whatever it is, the next beat must come
            log.warning("heartbeat failed: %s: %s", type(wrong).__name__, wrong)
            return False

    def _extend(self, asked: dict[str, Kept]) -> bool:
        if not asked:
            return True
        if self._unanswered * self._turn_s >= self._silence_s:  # the watch ends this process; others may have its runs
            log.error("no heartbeat: the event loop does not answer for %.0f s", self._unanswered * self._turn_s)
            return False
        self._began_s = began_s = time.monotonic()
        try:
            owned = [(run_id, kept.writer.lease.fence) for run_id, kept in asked.items()]
            found = beat(self._database, self.owner, self._settings.lease_s, owned)
        finally:
            self._began_s = None
        self._last_good_s = began_s
        for one in found:
            asked[one.run_id].is_heard = True
        self._loop.call_soon(lambda: self._heed(asked, found))
        self._loop.submit(self._hot_log.keep([b.run_id for b in found]))
        return True

    def _in_time(self) -> dict[str, Kept]:
        """Return the runs to beat for; one whose step is over its time is given up to whoever takes it next."""
        asked: dict[str, Kept] = {}
        for run_id, kept in self._kept.copy().items():  # the loop changes it meanwhile
            if kept.writer.is_stale:
                continue
            if kept.work.is_within_time:
                asked[run_id] = kept
            else:
                log.error("a step is over its own time and does not end; the run is given up run_id=%s", run_id)
                self._loop.call_soon(partial(kept.writer.lost_ownership, "is given up: its step does not end"))
        return asked

    def _heed(self, asked: dict[str, Kept], found: list[Beat]) -> None:
        """Tell the writers whose runs belong to somebody else, or were asked to stop."""
        still = {b.run_id: b for b in found}
        for run_id, kept in asked.items():
            if self._kept.get(run_id) is not kept or kept.writer.is_closed:
                continue
            seen = still.get(run_id)
            if seen is None and not kept.writer.is_committing:  # it may have ended; else its commit is refused
                kept.writer.lost_ownership()
            elif seen is not None and seen.stop_requested:
                kept.work.stop()

    @property
    def _silence_s(self) -> float:
        """How old the last good beat may be: a third of the lease is left then."""
        return self._settings.lease_s * 2 / 3

    @property
    def is_silent(self) -> bool:
        """Whether the leases may have run out without our knowing, so that nothing may be written; cheap to ask.

        A process that was stopped for a while and goes on learns it here, before its next heartbeat. That heartbeat
        says which runs are still its own: they go on, under the same fence.
        """
        return time.monotonic() - self._last_good_s >= self._silence_s

    @property
    def delay_s(self) -> float:
        """How long the heartbeat that is on its way has taken so far; 0 where none is."""
        began_s = self._began_s
        return time.monotonic() - began_s if began_s is not None else 0.0

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
            wanted = await self._loop.read_first(stops, self._database, self.owner)
        except Exception as wrong:  # whatever it is, the next look must come
            log.warning("looking for stops failed: %s: %s", type(wrong).__name__, wrong)
            return
        for run_id in wanted:
            self.stop_here(run_id)
