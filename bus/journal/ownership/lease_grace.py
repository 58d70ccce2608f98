"""The lease grace: the reaper waits after a lease expired before it counts a crash."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from sqlalchemy import Connection, Row

from bus.journal.states.rows import require_writable

GRACE_BEATS = 1.5
"""The grace in units of the owner's pause between two heartbeats that fail."""


class LeaseGrace:
    """The runs whose leases expired, each with the time when this reaper first saw it in a database that takes writes.

    While the database is away no owner can extend its leases. An owner that lives extends them within a moment of the
    database's return; without the grace, a reaper that looks first would count it as crashed.
    """

    def __init__(self, time_s: float, clock: Callable[[], float]) -> None:
        self.time_s = time_s
        """Seconds that an owner has to extend its lease."""
        self._clock = clock
        self._since: dict[str, tuple[int, float]] = {}

    def __len__(self) -> int:
        return len(self._since)

    def is_over(self, connection: Connection, run: Row[Any]) -> bool:
        """Return whether the grace of this locked run's owner is over; the first call starts it."""
        fence, since = self._since.get(run.id, (0, 0.0))
        if fence == run.fence:
            return self._clock() - since >= self.time_s
        require_writable(connection, run.id)
        self._since[run.id] = run.fence, self._clock()
        return False

    def forget(self, run_id: str) -> None:
        """Start a new grace for this run the next time."""
        self._since.pop(run_id, None)

    def keep(self, run_ids: Iterable[str]) -> None:
        """Forget all runs but these."""
        self._since = {run_id: self._since[run_id] for run_id in run_ids if run_id in self._since}
