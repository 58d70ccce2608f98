"""Claims the run of a message for this process; the agent is loaded before the claim."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from agents.claimed_run import ClaimedRun, begin_run, import_for
from agents.compatibility import LoadedAgent, try_load
from agents.process import Process
from bus.journal import Claim, Lease
from bus.messages import RunAgentMessage
from bus.queues import ServedQueues
from config.errors import CallboardError
from handlers.worker.slots import slot_pool

log = logging.getLogger(__name__)


class _Quarantined(Exception):
    """This process works on another suspect run."""


class _NotServed(Exception):
    """The run's queue is none of those that this worker serves."""


class _Mismatch(Exception):
    """The message's agent or definition differs from SQL's; it may be forged."""

    def __init__(self, lease: Lease) -> None:
        super().__init__(lease.run_id)
        self.lease = lease


class Claims:
    """Claims runs, many at once; of two claims of one run at most one gets it."""

    def __init__(self, process: Process, queues: ServedQueues | None = None) -> None:
        """With ``queues``, runs of other queues are left to the workers that serve those."""
        self._process = process
        self._queues = queues

    def claim(self, message: RunAgentMessage) -> ClaimedRun | None:
        """Claim the run and return it with its agent; None when there is nothing to do.

        To be called on a plain thread: the first call imports the agent's modules.

        Raises:
            Retryable: the database is locked or unreachable; the run stays queued.
        """
        problem = import_for(self._process, message.run_id)
        try:
            return self._claim(message, problem)
        except _Mismatch as error:  # loading may import modules, which must not happen in the claim's transaction
            message = replace(message, agent_id=error.lease.agent_id, definition_digest=error.lease.definition_digest)
            return self._claim(message, problem)

    def _claim(self, message: RunAgentMessage, problem: CallboardError | None) -> ClaimedRun | None:
        journal = self._process.journal
        with ExitStack() as undo:
            loaded = problem or try_load(self._process, message.agent_id, message.definition_digest)
            try:
                claimed = journal.claim_and_begin(message.run_id, partial(self._begin, message, loaded, undo))
            except _Quarantined:
                log.info("run waits for a process without another that crashed as often run_id=%s", message.run_id)
                return None
            except _NotServed:
                log.info("run is left to workers that serve its queue run_id=%s", message.run_id)
                journal.relay.publish_soon(message.run_id)
                return None
            return replace(claimed, held=undo.pop_all()) if claimed is not None else None

    def _begin(
        self,
        message: RunAgentMessage,
        loaded: LoadedAgent | CallboardError,
        undo: ExitStack,
        claim: Claim,
    ) -> ClaimedRun:
        """Begin the claimed run in the claim's transaction; an exception rolls the claim back.

        It is called again where the transaction was rolled back; ``undo`` reverts what the first call did in memory.

        Raises:
            _NotServed: the message came through another queue: from an older release, or forged.
            _Mismatch: the message names another agent or definition than SQL.
            _Quarantined: this process works on another suspect.
        """
        undo.close()
        lease = claim.lease
        if self._queues is not None and not self._queues.has(lease.queue):
            raise _NotServed
        if (lease.agent_id, lease.definition_digest) != (message.agent_id, message.definition_digest):
            raise _Mismatch(lease)
        if lease.is_suspect:
            if not slot_pool().quarantine(lease.run_id):
                raise _Quarantined
            undo.callback(slot_pool().end_quarantine, lease.run_id)
        return begin_run(claim, self._process, loaded)
