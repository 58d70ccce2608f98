"""Claims the runs of messages and of the poller, each with its agent loaded."""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from agents.compatibility import try_load
from agents.execution import ClaimedRun, begin_run, import_for
from agents.process import Process
from bus.journal.owner import Begun, ClaimTerms, Refused, Waiting
from bus.messages.run_agent import RunAgentMessage
from bus.queues import ServedQueues
from config.errors import CallboardError, Retryable
from config.tracing import traced
from handlers.worker.slots import slot_pool

log = logging.getLogger(__name__)

PATIENCE_S = 60.0
"""Seconds for which a claim is retried while the database is locked or unreachable."""
PAUSE_S = 0.5
"""Seconds between two retries."""


QUARANTINED = "run waits, since it or another run may not share this process run_id=%s"
TERMS = 4
"""Most tries of a claim, each on other terms: those of the message, of another definition, of a suspect."""


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
        self._process.policies.read_ahead()
        definition = message.agent_id, message.definition_digest
        terms = ClaimTerms(run_id=message.run_id, queues=self._queues, definition=definition)
        if not slot_pool().admit(message.run_id):
            log.info(QUARANTINED, message.run_id)
            return None
        with ExitStack() as held:
            held.callback(slot_pool().leave, message.run_id)
            for _ in range(TERMS):
                match self._claim(terms, problem):
                    case Begun(work=claimed):
                        return replace(claimed, held=held.pop_all())
                    case Waiting(reason="suspect", terms=ClaimTerms() as terms):
                        if not _may_stay(terms):
                            held.pop_all()
                            return None
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


def _may_stay(terms: ClaimTerms) -> bool:
    """Return whether a run may stay beside the others, as a suspect where its row says so; else it has left."""
    flags = {"is_suspect": terms.is_suspect, "must_be_alone": terms.must_be_alone}
    if slot_pool().admit(terms.run_id, **flags, again=True):
        return True
    log.info(QUARANTINED, terms.run_id)
    return False
