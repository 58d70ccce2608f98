"""Claims the runs of messages and of the poller, each with its agent loaded."""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from agents.compatibility import LoadedAgent, try_load
from agents.execution import ClaimedRun, begin_run, import_for
from agents.process import Process
from bus.journal import Claim, Lease
from bus.messages import RunAgentMessage
from bus.queues import ServedQueues
from config.errors import CallboardError, Retryable
from config.tracing import traced
from handlers.worker.slots import slot_pool

log = logging.getLogger(__name__)

PATIENCE_S = 60.0
"""Seconds for which a claim is retried while the database is locked or unreachable."""
PAUSE_S = 0.5
"""Seconds between two retries."""


class _Quarantined(Exception):
    """A run may not share this process with those that it works on."""


class _NotServed(Exception):
    """The run's queue is none of those that this worker serves."""


class _Mismatch(Exception):
    """The message's agent or definition differs from SQL's; the message may be forged."""

    def __init__(self, lease: Lease) -> None:
        super().__init__(lease.run_id)
        self.lease = lease


class RunAgentHandler:
    """Claims the runs of messages, many at once; a run is worked on by one owner at a time.

    If a message is delivered twice, late, or for a run that ended, the claim returns None and there is nothing to do.
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
        try:
            return self._claim(message, problem)
        except _Mismatch as error:  # loading may import modules, which must not happen in the claim's transaction
            lease = error.lease
            message = replace(message, agent_id=lease.agent_id, definition_digest=lease.definition_digest)
            return self._claim(message, problem)

    def _claim(self, message: RunAgentMessage, problem: CallboardError | None) -> ClaimedRun | None:
        journal = self._process.journal
        self._process.policies.read_ahead()
        with ExitStack() as undo:
            loaded = problem or try_load(self._process, message.agent_id, message.definition_digest)
            try:
                claimed = journal.owner.claim_and_begin(message.run_id, partial(self._begin, message, loaded, undo))
            except _Quarantined:
                log.info("run waits, since it or another run may not share this process run_id=%s", message.run_id)
                return None
            except _NotServed:
                log.info("run is left to workers that serve its queue run_id=%s", message.run_id)
                journal.live.relay.publish_soon(message.run_id)
                return None
            if claimed is None:
                return None
            return replace(claimed, held=undo.pop_all())

    def _begin(
        self, message: RunAgentMessage, loaded: LoadedAgent | CallboardError, undo: ExitStack, claim: Claim
    ) -> ClaimedRun:
        """Begin the claimed run in the claim's transaction; an exception rolls the claim back.

        It is called again where the transaction was rolled back; ``undo`` reverts what the first call did in memory.

        Raises:
            _NotServed: the message came through another queue: from an older release, or forged.
            _Mismatch: the message names another agent or definition than SQL.
            _Quarantined: this process works on another suspect, or one of the runs has to be alone.
        """
        undo.close()
        lease = claim.lease
        if self._queues is not None and not self._queues.has(lease.queue):
            raise _NotServed
        if (lease.agent_id, lease.definition_digest) != (message.agent_id, message.definition_digest):
            raise _Mismatch(lease)
        if not slot_pool().admit(lease.run_id, is_suspect=lease.is_suspect, must_be_alone=lease.must_be_alone):
            raise _Quarantined
        undo.callback(slot_pool().leave, lease.run_id)
        return begin_run(claim, self._process, loaded, partial(slot_pool().clear, lease.run_id))
