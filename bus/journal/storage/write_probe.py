"""A probe that writes to the database: one that can be read may still be full, locked or a standby."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from sqlalchemy import delete, insert

from config.database.engine import WALL_MS, Database
from config.database.tables import outbox
from config.errors import CallboardError

FRESH_S = 1.0
"""Seconds for which a result is reused, however many callers ask."""


class WriteProbe:
    """Writes one row at most once a second and remembers the result; safe for any thread."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._turn = threading.Lock()
        self._fresh_until: float | None = None
        self._wrong: CallboardError | None = None

    def require(self) -> None:
        """Check that the database took a write within the last second, or takes one now.

        While one thread probes, which takes up to 4 s where the database is locked, the others get the last result.

        Raises:
            DatabaseBusy, DatabaseFull, DatabaseReadOnly, DatabaseUnreachable: it took none.
        """
        if self._turn.acquire(blocking=self._fresh_until is None):
            try:
                self._look()
            finally:
                self._turn.release()
        if self._wrong is not None:
            raise self._wrong.with_traceback(None)

    def _look(self) -> None:
        if self._fresh_until is not None and self._clock() < self._fresh_until:
            return
        try:
            with self._database.write() as connection:  # in the table that accepting a run writes to
                row = connection.execute(_ADD).scalar_one()
                connection.execute(delete(outbox).where(outbox.c.id == row))
            self._wrong = None
        except CallboardError as error:
            self._wrong = error
        self._fresh_until = self._clock() + FRESH_S


_ADD = insert(outbox).values(run_id="probe", created_ms=WALL_MS).returning(outbox.c.id)
