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
from bus.journal.owner import KnownWait
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
        known = await loop.read(self._waits.known, run_id)
        places = await loop.read(self._places, known)
        if run_id is None:
            await self._subscribe(known, places)
        states = await _states(known, places)
        await self._note(known, states)
        self._end(known, places, states)
        resumed = []
        for ready in _ready(known, states):
            if await loop.write(self._waits.resume, ready):
                log.info("a run continues with the results of its tasks run_id=%s", ready)
                resumed.append(ready)
        return resumed

    def _pause_s(self) -> float:
        every_s = self._process.settings.reap_s
        return (min(POLL_S, every_s) if self._is_polling else every_s) * random.uniform(0.8, 1.2)  # no secret

    def _places(self, known: Iterable[KnownWait]) -> Mapping[str, ApplicationAddress]:
        """Return where each application is that can still be found."""
        found: dict[str, ApplicationAddress] = {}
        for name in {one.wait.application for one in known}:
            try:
                found[name] = address_of(find_application(name, self._process.settings), self._process.settings)
            except CallboardError as error:
                log.warning("tasks of an application are not looked at: %s", error)
        return found

    async def _subscribe(self, known: Sequence[KnownWait], places: Mapping[str, ApplicationAddress]) -> None:
        """Be woken by the tasks that runs wait for, and by no others."""
        waiting = {one.wait.task_id: places[one.wait.application] for one in known if _is_read(one, places)}
        for task_id in self._subscribed.keys() - waiting.keys():
            self._subscribed.pop(task_id)()
        are_subscribed = True
        for task_id, place in waiting.items():
            try:
                results = results_in(place)
            except CallboardError:  # it is logged where the results are read
                continue
            are_subscribed &= await results.subscribe(task_id, self._wanted.set)
            self._subscribed[task_id] = partial(results.unsubscribe, task_id, self._wanted.set)
        self._is_polling = not are_subscribed

    async def _note(self, known: Sequence[KnownWait], states: Mapping[str, TaskState]) -> None:
        """Keep which tasks have begun: a backend can lose what it holds."""
        begun = {
            one.step_id: replace(one.wait, has_begun=True)
            for one in known
            if one.is_waiting and not one.wait.has_begun and _has_begun(states.get(one.wait.task_id))
        }
        if begun:
            await self._process.journal.loop.write(self._waits.note, begun)

    def _end(
        self, known: Sequence[KnownWait], places: Mapping[str, ApplicationAddress], states: Mapping[str, TaskState]
    ) -> None:
        """Begin to revoke the tasks whose calls are over without them, and to forget the waits of calls that are over.

        Beside the looks: a broker that does not answer must not keep other runs waiting.
        """
        for one in known:
            if one.is_given_up and one.step_id not in self._ending:
                state = states.get(one.wait.task_id)
                has_ended = one.step_status in COLLECTED or (state is not None and state.has_ended)
                address = None if has_ended else places.get(one.wait.application)
                ending = asyncio.create_task(self._end_one(one, address), name=f"end of {one.wait.task_id}")
                self._ending[one.step_id] = ending
                ending.add_done_callback(lambda _, step_id=one.step_id: self._ending.pop(step_id, None))  # type: ignore[misc]

    async def _end_one(self, one: KnownWait, address: ApplicationAddress | None) -> None:
        """Revoke the task where its application's address is given, and forget the wait."""
        loop = self._process.journal.loop
        try:
            if address is not None:
                terminate = await loop.read(self._terminates, one.wait.application)
                await sender_to(address).revoke(one.wait.task_id, terminate=terminate)
                log.info("a task was revoked run_id=%s task_id=%s", one.run_id, one.wait.task_id)
        except CallboardError as error:  # its message expires
            log.warning("a task could not be revoked task_id=%s: %s", one.wait.task_id, error)
        try:
            await loop.write(self._waits.forget, [one.step_id])
        except CallboardError as error:
            log.warning("a wait is forgotten later task_id=%s: %s", one.wait.task_id, error)

    def _terminates(self, application: str) -> bool:
        try:
            return find_application(application, self._process.settings).terminate
        except CallboardError:
            return False


def _is_read(one: KnownWait, places: Mapping[str, ApplicationAddress]) -> bool:
    return one.is_waiting and one.wait.application in places


def _has_begun(state: TaskState | None) -> bool:
    """Return whether a backend that answered says that a task has begun."""
    return state is not None and state.name not in BEFORE_ITS_BEGINNING


async def _states(known: Sequence[KnownWait], places: Mapping[str, ApplicationAddress]) -> Mapping[str, TaskState]:
    """Return the states of the tasks that runs wait for, or whose calls are over, as far as backends answer."""
    asked: dict[ApplicationAddress, list[str]] = defaultdict(list)
    for one in known:
        if (one.is_waiting or one.is_given_up) and one.wait.application in places:
            asked[places[one.wait.application]].append(one.wait.task_id)
    found: dict[str, TaskState] = {}
    for place, task_ids in asked.items():
        try:
            found |= await results_in(place).states(task_ids)
        except CallboardError as error:
            log.warning("results of tasks are read later: %s", error)
    return found


def _ready(known: Sequence[KnownWait], states: Mapping[str, TaskState]) -> list[str]:
    """Return the runs none of whose tasks is worth waiting for any longer."""
    is_ready: dict[str, bool] = {}
    for one in known:
        if one.is_waiting:
            state = states.get(one.wait.task_id)
            over = one.is_over if state is not None else one.wait.left_ms < -GIVE_UP_MS
            is_ready[one.run_id] = is_ready.get(one.run_id, True) and (over or (state is not None and state.has_ended))
    return [run_id for run_id, ready in is_ready.items() if ready]
