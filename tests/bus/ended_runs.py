"""Runs that are over, to be kept or removed."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Table, func, select, update

from bus.journal.log.commit import Commit
from bus.journal.records.steps import StepStarted
from bus.journal.retention.retention import Swept, sweep
from bus.payloads import EndPayload
from config.clock import epoch_ms
from config.database.engine import Database
from config.database.tables import runs, threads
from config.settings import Settings
from tests.bus.journal_harness import JournalHarness, Owner

DAY_MS = 24 * 3600 * 1000


def ended(harness: JournalHarness, thread_id: str = "talk", **fields: Any) -> Owner:
    """Return the owner of a run that said something, did a step, and ended."""
    owner = harness.own(harness.accept(thread_id=thread_id, **fields).run_id)

    async def work() -> None:
        owner.notify_of_claim()
        step = StepStarted(
            id=f"stp_{owner.lease.run_id}", kind="model", name="demo", arguments_digest="a", idempotency_key="k"
        )
        await owner.writer.commit(Commit(started=[step]))
        await owner.say("one ", "two")
        await owner.message("one two")
        await owner.writer.commit(Commit(events=[EndPayload(status="succeeded")]))

    harness.do(work())
    return owner


def age(harness: JournalHarness, run_id: str, days: float = 10) -> str:
    """Let a run have ended so long ago, and its thread not have been touched since."""
    then = epoch_ms() - int(days * DAY_MS)
    key = harness.run_row(run_id).thread_key
    with harness.database.write() as connection:
        connection.execute(update(runs).where(runs.c.id == run_id).values(ended_ms=then))
        connection.execute(update(threads).where(threads.c.key == key).values(updated_ms=then))
    return run_id


def old(harness: JournalHarness, thread_id: str = "talk", days: float = 10) -> str:
    """Return a run that ended so long ago."""
    return age(harness, ended(harness, thread_id).lease.run_id, days)


def count(harness: JournalHarness, table: Table, **fields: Any) -> int:
    """Return how many rows have these values."""
    query = select(func.count()).select_from(table)
    for name, value in fields.items():
        query = query.where(table.c[name] == value)
    (row,) = harness.rows(query)
    return int(row[0])


def remove_old(database: Database, settings: Settings) -> Swept:
    """Remove what the settings do not retain, as the reaper's thread does every day."""
    return sweep(database, settings, pause=lambda seconds: None)
