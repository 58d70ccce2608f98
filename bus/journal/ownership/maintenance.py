"""Queries for workers' maintenance of runs without an owner: ends to deliver to observers, and waits for code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Row, select

from bus.journal.states import rows
from bus.journal.states.codes import Reason, RunStatus
from bus.journal.states.unowned import CommitResult, lock_run, resume
from config.database.engine import Database
from config.database.tables import runs

BATCH = 50


def claim_undelivered(database: Database, owner: str, lease_s: float) -> Sequence[Row[Any]]:
    """Return ended runs whose end ``owner`` has to deliver to observers; no other worker gets them for ``lease_s``."""
    with database.read() as connection:
        ids = list(connection.execute(select(runs.c.id).where(rows.undelivered(database)).limit(BATCH)).scalars())
    if not ids:
        return []
    with database.write() as connection:
        return rows.claim_undelivered(connection, database, ids, owner, lease_s)


def mark_delivered(database: Database, run_id: str) -> None:
    """Record that the run's observers have got its end."""
    with database.write() as connection:
        rows.mark_delivered(connection, run_id)


def waiting_for_code(database: Database) -> Iterator[Any]:
    """Yield every run that waits for code, read in pages, so that incompatible ones do not hide compatible ones."""
    columns = runs.c.id, runs.c.agent_id, runs.c.definition_digest, runs.c.queue, runs.c.journal
    waiting = select(*columns).where(runs.c.status == RunStatus.WAITING, runs.c.reason == Reason.CODE_VERSION)
    last: str | None = ""
    while last is not None:
        with database.read() as connection:
            page = connection.execute(waiting.where(runs.c.id > last).order_by(runs.c.id).limit(BATCH)).all()
        yield from page
        last = page[-1].id if page else None


def resume_waiting(database: Database, run_id: str) -> CommitResult | None:
    """Queue a run that waits for code; None where it does not wait for code any more."""
    with database.write() as connection:
        row = lock_run(connection, run_id)
        return resume(connection, row) if row is not None else None
