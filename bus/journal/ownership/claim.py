"""A claim: the lease of a run, and what its new owner reads and writes in the transaction that claims it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from bus.journal.approvals import use
from bus.journal.log.progress import Progress, read_progress
from bus.journal.ownership.leases import Lease
from bus.journal.steps import StepStarted, restart_steps, start_steps
from bus.journal.threads import Past, history


@dataclass(frozen=True, kw_only=True, slots=True)
class FirstCommit:
    """What an owner commits in the claim's transaction, before it begins to work."""

    started: Sequence[StepStarted] = ()
    restarted: Sequence[str] = ()
    """Ids of steps of an earlier owner that are resumed."""
    answers_used: Sequence[str] = ()
    """Ids of approvals whose decision is used now."""


class Claim:
    """A run that is being claimed; to be used within the claim's transaction, which an exception rolls back."""

    def __init__(self, connection: Connection, lease: Lease) -> None:
        self.connection = connection
        self.lease = lease

    def history(self, max_chars: int) -> Past:
        """Return the newest messages of the run's thread, slightly more than ``max_chars`` characters of them."""
        return history(self.connection, self.lease.thread_key, self.lease.turn, max_chars)

    def progress(self) -> Progress:
        """Return how far earlier owners came; of a new run, nothing."""
        return read_progress(self.connection, self.lease.run_id) if self.lease.fence > 1 else Progress()

    def write(self, first: FirstCommit) -> None:
        """Record the steps that begin or are resumed, and the approvals that are used."""
        start_steps(self.connection, self.lease.run_id, self.lease.fence, first.started)
        restart_steps(self.connection, self.lease.fence, first.restarted)
        use(self.connection, first.answers_used)
