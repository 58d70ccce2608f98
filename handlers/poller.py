"""Finds queued runs in SQL that no message brings: the message was lost, or there is no Redis to bring it."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Sequence
from typing import Any

from agents.process import Process
from bus.journal.reaper import claimable
from bus.messages import RunAgentMessage
from config.errors import CallboardError
from handlers.desk import Desk
from handlers.run_agent import RunAgentHandler

log = logging.getLogger(__name__)

HURRY_S = 1.0
"""Seconds between two looks while messages cannot be expected."""
LOOKED_AT = 500


class Poller:
    """One a worker process, on its loop.

    A run is taken when it was seen waiting twice, so that a message under way arrives first; one that came
    here and found no place is taken as soon as there is one.
    """

    def __init__(self, here: Process, desk: Desk) -> None:
        self._here = here
        self._desk = desk
        self._journal = here.journal
        self._handler = RunAgentHandler(here)
        self._seen: frozenset[str] = frozenset()
        self._wanted = asyncio.Event()
        self._working: set[asyncio.Task[None]] = set()
        desk.on_turned_away = lambda: self._journal.loop.call_soon(self._wanted.set)

    async def run(self) -> None:
        """Look again and again, for as long as the process lives."""
        while not self._desk.is_closed:
            try:
                async with asyncio.timeout(self._pause_s()):
                    await self._wanted.wait()
            except TimeoutError:
                pass
            self._wanted.clear()
            try:
                await self.look()
            except CallboardError as wrong:
                log.warning("looking for queued runs failed: %s", wrong)
            except Exception:  # whatever it is, the next look must come
                log.exception("looking for queued runs failed")

    async def look(self) -> int:
        """Take what waits and can be taken, and return how many were begun."""
        free = self._desk.free
        if free <= 0:
            return 0
        turned_away = self._desk.turned_away()
        rows = await self._journal.loop.read(self._claimable)
        waiting = [row for row in rows if row.id in turned_away or row.id in self._seen]
        self._seen = frozenset(row.id for row in rows)
        if self._journal.settings.redis_url is not None:
            self._journal.hot_log.nudge(self._journal.keys.nudges, "")  # says whether Redis can be reached
        for row in waiting[:free]:
            self._begin(_message(row))
        return len(waiting[:free])

    def _pause_s(self) -> float:
        is_told = not (self._journal.relay.is_failing or self._journal.hot_log.is_down)
        every_s = self._journal.settings.reap_s if is_told else min(HURRY_S, self._journal.settings.reap_s)
        return every_s * random.uniform(0.8, 1.2)  # no secret

    def _claimable(self) -> Sequence[Any]:
        with self._journal.read() as connection:
            return claimable(connection, self._journal.database, LOOKED_AT)

    def _begin(self, message: RunAgentMessage) -> None:
        task = asyncio.create_task(self._work(message), name=f"polled {message.run_id}")
        self._working.add(task)
        task.add_done_callback(self._working.discard)

    async def _work(self, message: RunAgentMessage) -> None:
        with self._desk.place_for(message.run_id) as has_place:
            if not has_place:
                return
            try:
                begun = await self._journal.loop.wait(self._handler.take, message)
            except CallboardError as wrong:
                log.warning("could not take a queued run run_id=%s: %s", message.run_id, wrong)
                return
            if begun is not None:
                log.info("took a run nobody was told about run_id=%s", message.run_id)
                await self._handler.work_off(begun)


def _message(row: Any) -> RunAgentMessage:
    return RunAgentMessage(
        run_id=row.id, agent_id=row.agent_id, thread_id=row.thread_id, detached=row.detached,
        definition_digest=row.definition_digest,
    )  # fmt: skip
