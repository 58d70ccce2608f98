"""Runs without an owner, as workers see them: which can be claimed, which wait for code, whose end is undelivered."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from bus.journal.log.events import undelivered
from bus.journal.log.progress import Progress, read_progress
from bus.journal.ownership import maintenance
from bus.journal.ownership.leases import defer_polling, has_lost_owner
from bus.journal.ownership.reaper import claimable
from bus.journal.states.unowned import CommitResult
from bus.payloads import Payload
from bus.queues import ServedQueues
from config.database.engine import Database


class UnownedRuns:
    """The runs that no process owns. Every method blocks and waits for the database."""

    def __init__(self, database: Database, owner: str, lease_s: float, publish: Callable[[CommitResult], None]) -> None:
        self._database = database
        self._owner = owner
        self._lease_s = lease_s
        self._publish = publish

    def claimable(self, limit: int, queues: ServedQueues) -> Sequence[Any]:
        """Return queued runs of these queues that can be claimed, the oldest first."""
        with self._database.read() as connection:
            return claimable(connection, self._database, limit, queues)

    def defer_polling(self, run_id: str) -> None:
        """Keep pollers from a queued run for the time of a lease: this process claims it next."""
        defer_polling(self._database, run_id, self._lease_s)

    def has_lost_owner(self, run_id: str) -> bool:
        """Return whether a run is running and the lease of its owner expired."""
        return has_lost_owner(self._database, run_id)

    # --- ends that observers did not get

    def claim_undelivered(self) -> Sequence[Any]:
        """Return ended runs whose end this process has to deliver; no other gets them for the time of a lease."""
        return maintenance.claim_undelivered(self._database, self._owner, self._lease_s)

    def undelivered(self, run: Any) -> Sequence[Payload]:
        """Return the events of such a run that were written since its last owner."""
        with self._database.read() as connection:
            return undelivered(connection, run.id, run.owned_fence, run.fence + 1)

    def mark_delivered(self, run_id: str) -> None:
        """Record that the run's observers have got its end."""
        maintenance.mark_delivered(self._database, run_id)

    # --- waits for code

    def waiting_for_code(self) -> Iterator[Any]:
        """Yield every run that waits for code that fits what is recorded of it."""
        return maintenance.waiting_for_code(self._database)

    def progress(self, run_id: str) -> Progress:
        """Return how far a run came with its earlier owners."""
        with self._database.read() as connection:
            return read_progress(connection, run_id)

    def resume(self, run_id: str) -> bool:
        """Queue a run that waits for code, and return whether it still did. No wake-up is published."""
        written = maintenance.resume_waiting(self._database, run_id)
        if written is not None:
            self._publish(written)
        return written is not None
