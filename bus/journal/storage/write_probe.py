"""A probe that writes to the database: one that can be read may still be full, locked or a standby."""

from __future__ import annotations

from sqlalchemy import delete, insert

from config.database.engine import WALL_MS, Database
from config.database.tables import outbox
from config.errors import CallboardError
from config.fresh import FreshFor

FRESH_S = 1.0
"""Seconds for which a result is reused, however many callers ask."""


class WriteProbe:
    """Writes one row at most once a second and remembers the result; safe for any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._problem = FreshFor[CallboardError | None]()

    def require(self) -> None:
        """Check that the database took a write within the last second, or takes one now.

        While one thread probes, which takes up to 4 s where the database is locked, the others get the last result.

        Raises:
            DatabaseBusy, DatabaseFull, DatabaseReadOnly, DatabaseUnreachable: it took none.
        """
        problem = self._problem.get(FRESH_S, self._look)
        if problem is not None:
            raise problem.with_traceback(None)

    def _look(self) -> CallboardError | None:
        try:
            with self._database.write() as connection:  # in the table that accepting a run writes to
                row = connection.execute(_ADD).scalar_one()
                connection.execute(delete(outbox).where(outbox.c.id == row))
        except CallboardError as error:
            return error
        return None


_ADD = insert(outbox).values(run_id="probe", created_ms=WALL_MS).returning(outbox.c.id)
