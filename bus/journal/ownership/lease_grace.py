"""Owners that were not heard of in time have a last call before anybody counts a crash."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from sqlalchemy import Connection, Row, bindparam, update

from config.tables import runs

LAST_CALL = 1.5
"""How many of the pauses an owner makes between two tries to be heard make a last call."""


class LastCalls:
    """The owners nobody heard of in time, each from when it was missed in a database that takes writes.

    While the database was away nobody could be heard of. An owner that lives extends its leases within a moment of
    the database's return, and must not be taken for crashed by a reaper that was there first.
    """

    def __init__(self, time_s: float, clock: Callable[[], float]) -> None:
        self.time_s = time_s
        """How long an owner has to be heard of."""
        self._clock = clock
        self._since: dict[str, tuple[int, float]] = {}

    def __len__(self) -> int:
        return len(self._since)

    def is_over(self, connection: Connection, run: Row[Any]) -> bool:
        """Return whether the owner of this locked run has had its time; the first time it is asked, that begins."""
        fence, since = self._since.get(run.id, (0, 0.0))
        if fence == run.fence:
            return self._clock() - since >= self.time_s
        connection.execute(_TAKES_WRITES, {"its_id": run.id})
        self._since[run.id] = run.fence, self._clock()
        return False

    def forget(self, run_id: str) -> None:
        """Begin anew with this run."""
        self._since.pop(run_id, None)

    def keep(self, run_ids: Iterable[str]) -> None:
        """Forget all runs but these."""
        self._since = {run_id: self._since[run_id] for run_id in run_ids if run_id in self._since}


_TAKES_WRITES = update(runs).where(runs.c.id == bindparam("its_id")).values(crashes=runs.c.crashes)
