"""Whether the database takes writes, which reading from it does not tell: it may be full, locked or a standby."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from sqlalchemy import delete, insert

from config.database import WALL_MS, Database
from config.errors import CallboardError
from config.tables import outbox

FRESH_S = 1.0
"""How long what was found counts, however many ask."""
NOBODY = "probe"


class WriteProbe:
    """Writes a little at most once a second, and remembers what came of it. Any thread may ask."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._turn = threading.Lock()
        self._fresh_until: float | None = None
        self._wrong: CallboardError | None = None

    def require(self) -> None:
        """The database took a write within the last second, or takes one now.

        While one thread finds out, which takes up to four seconds where the database is locked, the others get
        what was found before.

        Raises:
            DatabaseBusy, DatabaseFull, DatabaseReadOnly, DatabaseUnreachable: it does not.
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
            _write(self._database)
            self._wrong = None
        except CallboardError as wrong:
            self._wrong = wrong
        self._fresh_until = self._clock() + FRESH_S


def _write(database: Database) -> None:
    """Commit a row that nobody has seen, where accepting a run writes too."""
    with database.write() as connection:
        row = connection.execute(_ADD).scalar_one()
        connection.execute(delete(outbox).where(outbox.c.id == row))


_ADD = insert(outbox).values(run_id=NOBODY, created_ms=WALL_MS).returning(outbox.c.id)
