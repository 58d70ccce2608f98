"""The manager of a process's leases: one heartbeat extends them all, and it learns which runs have to stop.

Heartbeats have a thread of their own and go before all other writes of the process: queued writes, a blocked event
loop or a slow disk delay a heartbeat by at most one group of commits.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from sqlalchemy import Row

from bus.journal.controls import Control
from bus.journal.live.hotlog import HotLog
from bus.journal.log.writer import RunWriter
from bus.journal.ownership.leases import beat, requests
from bus.journal.records.control_requests import ControlRequest
from bus.journal.states.codes import Ending
from bus.journal.states.release import DRAINED, Release
from bus.keys import Keys
from bus.loop import ProcessLoop
from config.database.engine import Database
from config.settings import Settings

log = logging.getLogger(__name__)

RETRY_S = 1.0
"""Seconds to the next heartbeat after one that failed, so that leases are extended soon after an outage."""
TURNS = 5
"""Times per heartbeat that its thread checks whether the event loop answers."""
NUDGE_PAUSE_S = 0.05
"""Seconds between two queries for which nudges ask."""
REQUESTS_POLL_S = 0.5
"""Seconds between two queries for clients' requests; a nudge through Redis is faster but may be lost."""


class Work(Protocol):
    """The work on a run, as the lease manager controls it; called on the loop's thread but for ``is_within_time``."""

    def stop(self) -> None:
        """Stop the run as a client requested; a second call does nothing."""

    def release(self, change: Release = DRAINED) -> None:
        """Release the run at the end of its current step; without a ``change`` because this process ends soon."""

    def receive(self, request: ControlRequest) -> None:
        """Take what a client requested; a second time nothing happens, and a kind of a later release is left alone."""

    def cut(self) -> None:
        """Release the run now, in the middle of its step: this process ends."""

    @property
    def is_within_time(self) -> bool:
        """Whether the current step is within its deadline; past it the lease is not extended any more.

        Read on the heartbeat's thread, while the loop begins and ends steps.
        """


@dataclass(slots=True)
class TrackedRun:
    """A run that this process owns, with its writer and its work."""

    writer: RunWriter
    work: Work
    is_confirmed: bool
    """Whether its claim was fresh when it was first tracked, or a heartbeat has extended its lease since."""


class LeaseManager:
    """One per process. It calls ``Work`` on the loop's thread, and sends heartbeats from its own."""

    def __init__(
        self,
        owner: str,
        settings: Settings,
        database: Database,
        loop: ProcessLoop,
        hot_log: HotLog,
        keys: Keys,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.owner = owner
        self.clock = clock
        """Monotonic seconds; a suspended process sees them jump."""
        self._settings = settings
        self._database = database
        self._loop = loop
        self._hot_log = hot_log
        self._keys = keys
        self._tracked: dict[str, TrackedRun] = {}
        self._is_releasing = False
        self._closing = threading.Event()
        self._beating: threading.Thread | None = None
        self._looking: asyncio.Task[None] | None = None
        self._nudged = asyncio.Event()
        self._last_good_s = self.clock()
        self._unanswered = 0  # checks since the loop answered
        self._began_s: float | None = None  # since when a heartbeat is in flight

    @property
    def busy(self) -> int:
        """Number of runs that this process works on."""
        return len(self._tracked)

    @property
    def is_leaving(self) -> bool:
        """Whether this process releases its runs, so that it begins no other."""
        return self._is_releasing or self._closing.is_set()

    async def track(self, writer: RunWriter, work: Work) -> None:
        """Extend this run's lease from now on, and call ``work`` when the run has to stop or to be released."""
        await self._begin()
        # This process may have been suspended right after the claim; another one may own the run by now.
        tracked = TrackedRun(writer, work, is_confirmed=self.clock() - writer.claimed_s < self._silence_s)
        writer.is_silent = lambda: self.is_silent or not tracked.is_confirmed
        self._tracked[writer.lease.run_id] = tracked
        if writer.lease.stop_requested:
            work.stop()
        if self._is_releasing:
            work.release()

    def release_all(self) -> None:
        """Release every run at the end of its current step, also those that are tracked later."""
        self._is_releasing = True
        for tracked in list(self._tracked.values()):
            tracked.work.release()

    def cut_all(self) -> None:
        """Release every run at once."""
        for tracked in list(self._tracked.values()):
            tracked.work.cut()

    def untrack(self, run_id: str, fence: int | None = None) -> None:
        """Stop extending this run's lease; with a ``fence``, only if the run is tracked under it."""
        tracked = self._tracked.get(run_id)
        if tracked is not None and fence in (None, tracked.writer.lease.fence):
            del self._tracked[run_id]

    def control_local(self, run_id: str, control: Control) -> bool:
        """Read now what a client requested of a run if this process works on it, and return whether it does."""
        tracked = self._tracked.get(run_id)
        if tracked is None:
            return False
        if isinstance(control.to, Ending):
            tracked.work.stop()
        self._nudged.set()
        return True

    def tracks(self, run_id: str) -> bool:
        """Return whether this process works on the run, also while its heartbeats fail."""
        return run_id in self._tracked

    def close(self) -> None:
        """Send no more heartbeats; the leases expire."""
        self._closing.set()
        if self._looking is not None:
            self._looking.cancel()

    async def _begin(self) -> None:
        if all(tracked.writer.is_stale for tracked in self._tracked.values()):
            self._last_good_s = self.clock()  # no run was tracked, so the last heartbeat says nothing of a new one
        if self._beating is not None:
            return
        self._beating = threading.Thread(target=self._beats, name="callboard-beat", daemon=True)
        self._beating.start()
        self._looking = self._loop.loop.create_task(self._follow_requests(), context=Context())
        await self._hot_log.listen(self._keys.nudges, self._on_nudge)

    def _on_nudge(self, text: str) -> None:
        _, _, run_id = text.partition(" ")
        if run_id in self._tracked:  # a hint that may be forged: SQL decides
            self._nudged.set()

    def _beats(self) -> None:
        """Send heartbeats until ``close``, on the heartbeat's thread."""
        due_s = self.clock() + self._settings.beat_s
        while not self._closing.wait(self._turn_s):
            self._unanswered += 1  # checks, not seconds: none pass while this process is suspended
            self._loop.call_soon(self._answer)
            if self.clock() >= due_s:
                is_good = not self._tracked or self._beat()
                due_s = self.clock() + (self._settings.beat_s if is_good else min(self._settings.beat_s, RETRY_S))

    @property
    def _turn_s(self) -> float:
        return min(self._settings.beat_s / TURNS, RETRY_S)

    def _answer(self) -> None:
        self._unanswered = 0

    def _beat(self) -> bool:
        """Extend the leases of all tracked runs, and return whether that succeeded."""
        try:
            return self._extend(self._in_time())
        except Exception as error:  # whatever it is, the next beat must come
            log.warning("heartbeat failed: %s: %s", type(error).__name__, error)
            return False

    def _extend(self, by_run_id: dict[str, TrackedRun]) -> bool:
        if not by_run_id:
            return True
        stuck_s = self._unanswered * self._turn_s
        if stuck_s >= self._silence_s:  # the watchdog ends this process; others may own its runs
            log.error("no heartbeat: the event loop does not answer for %.0f s", stuck_s)
            return False
        self._began_s = began_s = self.clock()
        try:
            owned = [(run_id, tracked.writer.lease.fence) for run_id, tracked in by_run_id.items()]
            rows = beat(self._database, self.owner, self._settings.lease_s, owned)
        finally:
            self._began_s = None
        self._last_good_s = began_s
        for row in rows:
            by_run_id[row.run_id].is_confirmed = True
        self._loop.call_soon(lambda: self._apply(by_run_id, rows))
        self._loop.submit(self._hot_log.keep([(by_run_id[b.run_id].writer.tenant, b.run_id) for b in rows]))
        return True

    def _in_time(self) -> dict[str, TrackedRun]:
        """Return the runs whose leases to extend; a run whose step is past its deadline is given up."""
        by_run_id: dict[str, TrackedRun] = {}
        for run_id, tracked in self._tracked.copy().items():  # the loop changes it meanwhile
            if tracked.writer.is_stale:
                continue
            if tracked.work.is_within_time:
                by_run_id[run_id] = tracked
            else:
                log.error("a step is past its deadline and does not end; the run is given up run_id=%s", run_id)
                self._loop.call_soon(partial(tracked.writer.lost_ownership, "is given up: its step does not end"))
        return by_run_id

    def _apply(self, by_run_id: dict[str, TrackedRun], rows: list[Row[Any]]) -> None:
        """Stop the writers of runs that this process lost, and stop the runs that clients asked to stop."""
        still = {b.run_id: b for b in rows}
        for run_id, tracked in by_run_id.items():
            if self._tracked.get(run_id) is not tracked or tracked.writer.is_closed:
                continue
            seen = still.get(run_id)
            if seen is None and not tracked.writer.is_committing:  # a commit in flight may have ended the run
                tracked.writer.lost_ownership()
            elif seen is not None and seen.stop_requested:
                tracked.work.stop()

    @property
    def _silence_s(self) -> float:
        """Seconds since the last successful heartbeat after which writing stops; a third of the lease is left then."""
        return self._settings.lease_s * 2 / 3

    @property
    def is_silent(self) -> bool:
        """Whether leases may have expired unnoticed, so that nothing may be written; cheap to read.

        A process that was suspended finds it out here, before its next heartbeat. That heartbeat finds the runs that
        it still owns; they continue under the same fence.
        """
        return self.clock() - self._last_good_s >= self._silence_s

    @property
    def delay_s(self) -> float:
        """Seconds that the heartbeat in flight has taken so far; 0 where there is none."""
        began_s = self._began_s
        return self.clock() - began_s if began_s is not None else 0.0

    async def _follow_requests(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(REQUESTS_POLL_S):
                    await self._nudged.wait()
            was_nudged = self._nudged.is_set()
            self._nudged.clear()
            if self._tracked:
                await self._look_for_requests()
            if was_nudged:  # the first nudge is handled at once; a flood of them causes no more queries than this
                await asyncio.sleep(NUDGE_PAUSE_S)

    async def _look_for_requests(self) -> None:
        try:
            unread = await self._loop.read_first(requests, self._database, self.owner)
        except Exception as error:  # whatever it is, the next look must come
            log.warning("looking for requests failed: %s: %s", type(error).__name__, error)
            return
        for request in unread:
            tracked = self._tracked.get(request.run_id)
            if tracked is not None:
                tracked.work.receive(request)
