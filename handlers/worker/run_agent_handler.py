"""Claims the runs of messages and of the poller, each with its agent loaded.

The poller takes queued runs from SQL whose wake-up was lost, or all where there is no broker.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from agents.compatibility import try_load
from agents.execution import ClaimedRun, begin_run, execute, import_for
from agents.memory.compaction import compactions
from agents.process import Process
from bus.journal.owner import Begun, ClaimTerms, Refused, Waiting
from bus.messages.run_agent import RunAgentMessage
from bus.queues import ServedQueues, served_queues
from config.errors import CallboardError, Retryable
from config.tracing import traced
from handlers.worker.slots import SlotPool, slot_pool

log = logging.getLogger(__name__)

PATIENCE_S = 60.0
"""Seconds for which a claim is retried while the database is locked or unreachable."""
PAUSE_S = 0.5
"""Seconds between two retries."""


QUARANTINED = "run waits, since it or another run may not share this process run_id=%s"
TERMS = 12
"""Most tries of a claim, each on other terms: those of the message, of another definition, of a suspect, of runs with a
higher priority, which other processes try to claim as well. The last one is for the message's run in any case."""


class RunAgentHandler:
    """Claims the runs of messages, many at once; a run is worked on by one owner at a time.

    A message is a wake-up, and SQL says for which run: the one of the message's tenant and queue with the highest
    priority (``bus/journal/states/queue_order.py``). If a message is delivered twice, late, or for a run that ended, it
    begins the next queued run, or the claim returns None and there is nothing to do.
    """

    def __init__(self, process: Process, queues: ServedQueues | None = None) -> None:
        """With ``queues``, runs of other queues are left to the workers that serve those."""
        self._process = process
        self._queues = queues

    def take(self, message: RunAgentMessage) -> ClaimedRun | None:
        """Claim the run and return it with its agent; None when there is nothing to do. Blocks a plain thread.

        The claim is retried while the database is locked or unreachable. If it fails, that is logged and the run stays
        queued: any worker's poller finds it.
        """
        with traced(message.trace_id, message.correlation_id, message.run_id):
            return self._take(message)

    def _take(self, message: RunAgentMessage) -> ClaimedRun | None:
        patience_ends_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                return self.claim(message)
            except CallboardError as error:
                if not isinstance(error, Retryable) or time.monotonic() >= patience_ends_s:
                    log.warning("could not take a queued run run_id=%s: %s", message.run_id, error)
                    return None
                log.warning("could not claim yet run_id=%s: %s", message.run_id, error)
            time.sleep(PAUSE_S)  # on a thread of its own

    def claim(self, message: RunAgentMessage) -> ClaimedRun | None:
        """Claim the run and return it with its agent; None when there is nothing to do.

        To be called on a plain thread: the first call imports the agent's modules.

        Raises:
            Retryable: the database is locked or unreachable; the run stays queued.
        """
        problem = import_for(self._process, message.run_id)
        self._process.policies.read_ahead()
        definition = message.agent_id, message.definition_digest
        terms = own = ClaimTerms(
            run_id=message.run_id, queues=self._queues, definition=definition, in_order=self._queues is not None
        )
        with ExitStack() as held:
            if not _admit(held, message.run_id):
                return None
            for left in reversed(range(TERMS)):
                match self._claim(terms, problem):
                    case Begun(work=claimed):
                        return replace(claimed, held=held.pop_all())
                    case Waiting(reason="suspect", terms=ClaimTerms() as terms):
                        if not _may_stay(terms):
                            held.pop_all()
                            return None
                    case Waiting(reason="priority", terms=ClaimTerms() as terms):
                        terms = terms if left > 1 else replace(own, in_order=False)
                        if not _admit(held, terms.run_id):
                            return None
                        problem = import_for(self._process, terms.run_id)
                    case Waiting(terms=ClaimTerms() as terms):  # the message's definition is not the run's
                        continue
                    case Waiting(reason="queue"):  # it came through another queue: from an older release, or forged
                        log.info("run is left to workers that serve its queue run_id=%s", message.run_id)
                        self._process.journal.live.relay.publish_soon(message.run_id)
                        return None
                    case Waiting() | Refused():
                        return None
        return None  # its row changes faster than it can be claimed; a poller finds it

    def _claim(self, terms: ClaimTerms, problem: CallboardError | None) -> Begun[ClaimedRun] | Waiting | Refused:
        """Claim the run with its agent, which is loaded before: modules may not be imported in the transaction."""
        assert terms.definition is not None
        loaded = problem or try_load(self._process, *terms.definition)
        on_cleared = partial(slot_pool().clear, terms.run_id)
        begin = partial(begin_run, process=self._process, loaded=loaded, on_cleared=on_cleared)
        return self._process.journal.owner.claim_and_begin(terms, begin)


def _admit(held: ExitStack, run_id: str) -> bool:
    """Hold a place of this process for the run, in place of the one that is held; return whether it may be here."""
    held.close()
    if not slot_pool().admit(run_id):
        log.info(QUARANTINED, run_id)
        return False
    held.callback(slot_pool().leave, run_id)
    return True


def _may_stay(terms: ClaimTerms) -> bool:
    """Return whether a run may stay beside the others, as a suspect where its row says so; else it has left."""
    flags = {"is_suspect": terms.is_suspect, "must_be_alone": terms.must_be_alone}
    if slot_pool().admit(terms.run_id, **flags, again=True):
        return True
    log.info(QUARANTINED, terms.run_id)
    return False


def summarise_later(process: Process, claimed: ClaimedRun | None) -> None:
    """Begin to summarise the thread of a run that this worker has worked on, where it is over and the thread long."""
    if claimed is not None and (definition := claimed.definition) is not None:
        journal, context = process.journal, claimed.context
        journal.loop.call_soon(lambda: compactions().start(journal, context, definition))


HURRY_S = 1.0
"""Seconds between two polls while the relay or Redis fails."""
LOOKED_AT = 500


class Poller:
    """One per worker process, on its event loop.

    A run is taken when two polls have seen it, so that a wake-up in flight arrives first. A run whose wake-up found no
    free slot is taken as soon as there is one.
    """

    def __init__(self, process: Process, slots: SlotPool) -> None:
        self._process = process
        self._slots = slots
        self._journal = process.journal
        self._queues = served_queues(process.settings)
        self._handler = RunAgentHandler(process, self._queues)
        self._seen: frozenset[str] = frozenset()
        self._wanted = asyncio.Event()
        self._wanted.set()  # the first look is at once, so that a new worker takes at its second what has no wake-up
        self._working: set[asyncio.Task[None]] = set()
        slots.on_deferred = lambda: self._journal.loop.call_soon(self._wanted.set)

    async def run(self) -> None:
        """Poll for as long as the process lives."""
        while not self._slots.is_closed:
            try:
                async with asyncio.timeout(self._pause_s()):
                    await self._wanted.wait()
            except TimeoutError:
                pass
            self._wanted.clear()
            try:
                await self.look()
            except CallboardError as error:
                log.warning("looking for queued runs failed: %s", error)
            except Exception:  # the task must survive any error
                log.exception("looking for queued runs failed")

    async def look(self) -> int:
        """Take the claimable runs for which there are slots, and return how many were begun."""
        self._journal.live.hot_log.announce(await self._journal.loop.read(self._journal.live.database_id))
        free = self._slots.free
        if free <= 0:
            return 0
        deferred = self._slots.deferred()
        rows = await self._journal.loop.read(self._journal.owner.unowned.claimable, LOOKED_AT, self._queues)
        # The wake-up of a run that another one has begun begins the oldest run in its place.
        fresh = [row.id for row in rows if row.id not in deferred and row.id not in self._seen]
        deferred |= {*fresh[: len(deferred.difference(row.id for row in rows))]}
        waiting = [row for row in rows if row.id in deferred or row.id in self._seen]
        reserved_for = self._slots.reserved_for
        if reserved_for is not None:
            waiting = [row for row in rows if row.id == reserved_for]
            if not waiting:  # another process has taken it
                self._slots.leave(reserved_for)
        self._seen = frozenset(row.id for row in rows)
        for row in waiting[:free]:
            task = asyncio.create_task(self._work(RunAgentMessage.of_run(row)), name=f"polled {row.id}")
            self._working.add(task)
            task.add_done_callback(self._working.discard)
        self._slots.defer(deferred & {row.id for row in waiting[free:]})
        return len(waiting[:free])

    def _pause_s(self) -> float:
        is_notified = not (self._journal.live.relay.is_failing or self._journal.live.hot_log.is_down)
        every_s = self._journal.settings.reap_s if is_notified else min(HURRY_S, self._journal.settings.reap_s)
        return every_s * random.uniform(0.8, 1.2)  # no secret

    async def _work(self, message: RunAgentMessage) -> None:
        ids = message.trace_id, message.correlation_id, message.run_id
        with traced(*ids), self._slots.slot_for(message.run_id) as has_slot:
            if not has_slot:
                return
            claimed = await self._journal.loop.wait(self._handler.take, message)
            if claimed is not None:
                log.info("took a run that no message brought run_id=%s", message.run_id)
                await execute(self._journal, claimed)
        summarise_later(self._process, claimed)
