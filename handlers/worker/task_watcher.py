"""Watches the tasks of Celery applications that calls began: requeues runs whose tasks have ended, revokes the others.

Every worker looks at all waits, so that none is lost with a worker. A task is revoked where its call
has an outcome without it: the run was stopped, or the task's time is over.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from agents.process import Process
from bus.celery_tasks.application import ApplicationAddress, address_of, find_application, results_in, sender_to
from bus.celery_tasks.state import BEFORE_ITS_BEGINNING, TaskState
from bus.journal.stores import KnownWait
from config.errors import CallboardError

log = logging.getLogger(__name__)

POLL_S = 1.0
"""Seconds between two looks where results do not arrive as they are written."""
LEAST_PAUSE_S = 0.02
LOOK_SHARE = 5.0
"""How many times as long as a look the pause after it is at least, however many tasks end."""
GIVE_UP_MS = 300_000
"""Milliseconds beyond a task's time until its run is requeued though the result backend does not answer."""
COLLECTED = ("done", "refused")
"""Outcomes of calls whose task needs no revoking."""


class TaskWatcher:
    """One per process, on its event loop; a run is requeued once, since its row decides."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._waits = process.journal.owner.task_waits
        self._wanted = asyncio.Event()
        self._subscribed: dict[str, Callable[[], None]] = {}
        self._ending: dict[str, asyncio.Task[None]] = {}
        self._is_polling = False

    async def run(self) -> None:
        """Look for as long as the process lives, and at once when this process releases a run that waits."""
        self._waits.look_soon = self._wanted.set
        while True:
            began_s = time.monotonic()
            try:
                await self.look()
            except CallboardError as error:
                log.warning("waits for tasks are looked at again: %s", error)
            except Exception:  # the task must survive any error
                log.exception("looking at waits for tasks failed")
            took_s = time.monotonic() - began_s
            await asyncio.sleep(min(max(LEAST_PAUSE_S, LOOK_SHARE * took_s), POLL_S))
            try:
                async with asyncio.timeout(self._pause_s()):
                    await self._wanted.wait()
            except TimeoutError:
                pass
            self._wanted.clear()

    async def look(self, run_id: str | None = None) -> list[str]:
        """Look at all waits, or those of one run, and return the runs that were requeued."""
        loop = self._process.journal.loop
        waits = await loop.read(self._waits.known, run_id)
        places = await loop.read(self._places, waits)
        if run_id is None:
            await self._subscribe(waits, places)
        states = await _states(waits, places)
        await self._note(waits, states)
        self._end(waits, places, states)
        resumed = []
        for ready in _ready(waits, states):
            if await loop.write(self._waits.resume, ready):
                log.info("a run continues with the results of its tasks run_id=%s", ready)
                resumed.append(ready)
        return resumed

    def _pause_s(self) -> float:
        every_s = self._process.settings.reap_s
        return (min(POLL_S, every_s) if self._is_polling else every_s) * random.uniform(0.8, 1.2)  # no secret

    def _places(self, waits: Iterable[KnownWait]) -> Mapping[str, ApplicationAddress]:
        """Return where each application is that can still be found."""
        addresses: dict[str, ApplicationAddress] = {}
        for name in {entry.wait.application for entry in waits}:
            try:
                addresses[name] = address_of(find_application(name, self._process.settings), self._process.settings)
            except CallboardError as error:
                log.warning("tasks of an application are not looked at: %s", error)
        return addresses

    async def _subscribe(self, waits: Sequence[KnownWait], places: Mapping[str, ApplicationAddress]) -> None:
        """Be woken by the tasks that runs wait for, and by no others."""
        waiting = {entry.wait.task_id: places[entry.wait.application] for entry in waits if _is_read(entry, places)}
        for task_id in self._subscribed.keys() - waiting.keys():
            self._subscribed.pop(task_id)()
        are_subscribed = True
        for task_id, address in waiting.items():
            try:
                results = results_in(address)
            except CallboardError:  # it is logged where the results are read
                continue
            are_subscribed &= await results.subscribe(task_id, self._wanted.set)
            self._subscribed[task_id] = partial(results.unsubscribe, task_id, self._wanted.set)
        self._is_polling = not are_subscribed

    async def _note(self, waits: Sequence[KnownWait], states: Mapping[str, TaskState]) -> None:
        """Keep which tasks have begun: a backend can lose what it holds."""
        begun = {
            entry.step_id: replace(entry.wait, has_begun=True)
            for entry in waits
            if entry.is_waiting and not entry.wait.has_begun and _has_begun(states.get(entry.wait.task_id))
        }
        if begun:
            await self._process.journal.loop.write(self._waits.note, begun)

    def _end(
        self, waits: Sequence[KnownWait], places: Mapping[str, ApplicationAddress], states: Mapping[str, TaskState]
    ) -> None:
        """Begin to revoke the tasks whose calls are over without them, and to forget the waits of calls that are over.

        Beside the looks: a broker that does not answer must not keep other runs waiting.
        """
        for entry in waits:
            if entry.is_given_up and entry.step_id not in self._ending:
                state = states.get(entry.wait.task_id)
                has_ended = entry.step_status in COLLECTED or (state is not None and state.has_ended)
                address = None if has_ended else places.get(entry.wait.application)
                ending = asyncio.create_task(self._end_one(entry, address), name=f"end of {entry.wait.task_id}")
                self._ending[entry.step_id] = ending
                ending.add_done_callback(lambda _, step_id=entry.step_id: self._ending.pop(step_id, None))  # type: ignore[misc]

    async def _end_one(self, entry: KnownWait, address: ApplicationAddress | None) -> None:
        """Revoke the task where its application's address is given, and forget the wait."""
        loop = self._process.journal.loop
        try:
            if address is not None:
                terminate = await loop.read(self._terminates, entry.wait.application)
                await sender_to(address).revoke(entry.wait.task_id, terminate=terminate)
                log.info("a task was revoked run_id=%s task_id=%s", entry.run_id, entry.wait.task_id)
        except CallboardError as error:  # its message expires
            log.warning("a task could not be revoked task_id=%s: %s", entry.wait.task_id, error)
        try:
            await loop.write(self._waits.forget, [entry.step_id])
        except CallboardError as error:
            log.warning("a wait is forgotten later task_id=%s: %s", entry.wait.task_id, error)

    def _terminates(self, application: str) -> bool:
        try:
            return find_application(application, self._process.settings).terminate
        except CallboardError:
            return False


def _is_read(entry: KnownWait, places: Mapping[str, ApplicationAddress]) -> bool:
    return entry.is_waiting and entry.wait.application in places


def _has_begun(state: TaskState | None) -> bool:
    """Return whether a backend that answered says that a task has begun."""
    return state is not None and state.name not in BEFORE_ITS_BEGINNING


async def _states(waits: Sequence[KnownWait], places: Mapping[str, ApplicationAddress]) -> Mapping[str, TaskState]:
    """Return the states of the tasks that runs wait for, or whose calls are over, as far as backends answer."""
    by_address: dict[ApplicationAddress, list[str]] = defaultdict(list)
    for entry in waits:
        if (entry.is_waiting or entry.is_given_up) and entry.wait.application in places:
            by_address[places[entry.wait.application]].append(entry.wait.task_id)
    states: dict[str, TaskState] = {}
    for address, task_ids in by_address.items():
        try:
            states |= await results_in(address).states(task_ids)
        except CallboardError as error:
            log.warning("results of tasks are read later: %s", error)
    return states


def _ready(waits: Sequence[KnownWait], states: Mapping[str, TaskState]) -> list[str]:
    """Return the runs none of whose tasks is worth waiting for any longer."""
    is_ready: dict[str, bool] = {}
    for entry in waits:
        if entry.is_waiting:
            state = states.get(entry.wait.task_id)
            over = entry.is_over if state is not None else entry.wait.left_ms < -GIVE_UP_MS
            is_ready[entry.run_id] = is_ready.get(entry.run_id, True) and (
                over or (state is not None and state.has_ended)
            )
    return [run_id for run_id, ready in is_ready.items() if ready]
