"""Writing to a run nobody holds a lease of: a cancel, a decision, an expiry, the reaper's dead.

The run's row is locked, the fence raised so that a zombie's writes are refused, holes are declared
exactly as a new owner would, and only then the next numbers are taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, Row, select, update

from bus.journal.events import event_row, insert_rows, undeclared
from bus.journal.leases import expired
from bus.payloads import Payload, WithdrawnPayload
from config.clock import stamp
from config.database import WALL_MS, Database
from config.tables import runs


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """What became of a run that was looked at without a lease."""

    run_id: str
    thread_id: str
    status: str
    """The run's state now."""
    fence: int
    events: tuple[Payload, ...] = ()
    """What was written; viewers still have to be told."""
    wake: str | None = None
    """A run that may begin now: this one, or the thread's next."""


def lock_run(connection: Connection, run_id: str) -> Row[Any] | None:
    """Return the run's row, which nobody else can change before this transaction is over; None: there is none.

    ``age_ms`` is how long ago it was accepted.
    """
    query = select(runs, (WALL_MS - runs.c.created_ms).label("age_ms")).where(runs.c.id == run_id)
    return connection.execute(query.with_for_update()).first()


def has_live_owner(database: Database, connection: Connection, row: Row[Any]) -> bool:
    """Return whether somebody holds a lease of this run now."""
    if row.status != "running":
        return False
    return connection.execute(select(runs.c.id).where(runs.c.id == row.id, ~expired(database))).first() is not None


def untouched(row: Row[Any]) -> Written:
    """Return what is said of a run nothing was written to."""
    return Written(run_id=row.id, thread_id=row.thread_id, status=row.status, fence=row.fence)


def write(connection: Connection, row: Row[Any], payloads: Sequence[Payload], **values: Any) -> Written:
    """Add ``payloads`` to the log of a locked run without a live owner, and set columns of its row.

    ``row`` is what ``lock_run`` returned. The run has no owner afterwards.
    """
    fence, at = row.fence + 1, stamp()
    ranges = undeclared(connection, row.id, row.declared_to, row.reserved_to)
    told = [WithdrawnPayload(ranges=ranges), *payloads] if ranges else list(payloads)
    numbered = tuple(replace(payload, seq=row.reserved_to + 1 + i, at=at) for i, payload in enumerate(told))
    last = row.reserved_to + len(numbered)
    ours = {"fence": fence, "owner": None, "lease_until": None, "reserved_to": last, "declared_to": last}
    connection.execute(update(runs).where(runs.c.id == row.id).values(**(ours | values)))
    insert_rows(connection, [event_row(payload, row.id, row.thread_id, fence) for payload in numbered])
    return Written(
        run_id=row.id, thread_id=row.thread_id, status=values.get("status", row.status), fence=fence, events=numbered
    )
