"""The invariants of the runs of two threads, checked after each operation, and what was delivered to observers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import BindParameter, bindparam, select

from bus.journal.queries.run_record import RunRecord, record_of
from bus.payloads import TERMINAL, Payload, encode
from cli.crashlab.effects import Effects
from cli.crashlab.invariants import breaches, changes, thread_breaches
from config.database.tables import approvals, outbox, runs
from tests.bus.fake_owner import FakeOwner, Outside
from tests.bus.journal_harness import JournalHarness

# Built once: they are asked after each rule.
ITS: BindParameter[str] = bindparam("id_")
OF_THREADS = runs.c.thread_id.in_([bindparam("first"), bindparam("second")])
RUN = select(runs).where(runs.c.id == ITS)
MINE = select(runs).where(OF_THREADS).order_by(runs.c.thread_key, runs.c.turn)
OPEN = select(runs.c.id).where(runs.c.thread_key == bindparam("key_"), runs.c.ended_ms.is_(None)).order_by(runs.c.turn)
ANNOUNCED = select(outbox.c.id).where(outbox.c.run_id == ITS)
ASKED = (
    select(approvals)
    .join(runs, runs.c.id == approvals.c.run_id)
    .where(OF_THREADS)
    .order_by(approvals.c.created_ms, approvals.c.id)
)


class Rules:
    """The rules over the runs of two threads."""

    def __init__(self, harness: JournalHarness, threads: Sequence[str], outside: Outside) -> None:
        self._harness = harness
        self._threads = {"first": threads[0], "second": threads[1]}
        self._outside = outside
        self._seen: dict[str, Any] = {}
        self._records: dict[str, RunRecord] = {}
        self._turns: list[Any] = []
        self._delivered: dict[tuple[str, int], bytes] = {}
        self._fences: set[tuple[str, int]] = set()

    # --- what there is

    def row(self, run_id: str) -> Any:
        (row,) = self._rows(RUN, id_=run_id)
        return row

    def record(self, run_id: str) -> RunRecord:
        """Return what the journal had about a run at the last check."""
        return self._records[run_id]

    def first_open(self, thread_key: int) -> str | None:
        """Return the thread's oldest run that has not ended."""
        rows = self._rows(OPEN, key_=thread_key)
        return rows[0].id if rows else None

    def asked(self) -> list[Any]:
        """Return every question that was asked, in order."""
        return self._rows(ASKED, **self._threads)

    # --- what is delivered and given out

    def note_all_delivered(self, fake: FakeOwner) -> None:
        for payload in fake.owner.delivered:
            self.note_delivered(fake.lease.run_id, fake.lease.thread_id, payload)
        fake.owner.delivered.clear()

    def note_delivered(self, run_id: str, thread_id: str, payload: Payload) -> None:
        """No number is given to two events."""
        line = encode(payload, run_id, thread_id)
        assert self._delivered.setdefault((run_id, payload.seq), line) == line, "a number was given twice"

    def is_new_fence(self, run_id: str, fence: int) -> bool:
        """Return whether no owner had this fence before."""
        is_new = (run_id, fence) not in self._fences
        self._fences.add((run_id, fence))
        return is_new

    # --- what holds

    def check(self) -> None:
        """Look at what changed since the last time."""
        rows = self._rows(MINE, **self._threads)
        changed = [row for row in rows if self._seen.get(row.id) != row]
        for row in changed:
            self._seen[row.id] = row
            self._check_run(row)
        turns = [(row.id, row.status, row.lease_until) for row in rows]
        if self._turns != turns:
            self._turns = turns
            self._check_turns(rows)

    def _check_run(self, row: Any) -> None:
        with self._harness.database.read() as connection:
            record = record_of(connection, row)
        before = self._records.get(row.id, record)
        effects = Effects([record], self._outside.entries[row.id])
        assert [*breaches(record), *changes(before, record), *effects.breaches()] == []
        self._records[row.id] = record
        differ = [line for line in record.lines if self._delivered.get((row.id, line.seq), line.data) != line.data]
        assert differ == [], f"not as delivered to observers: {differ}"

    def _check_turns(self, rows: Sequence[Any]) -> None:
        """A run that may begin is announced in the outbox, and the reaper finds it."""
        free = set()
        for key in {row.thread_key for row in rows}:
            its = [row for row in rows if row.thread_key == key]
            assert list(thread_breaches([self._records[row.id] for row in its])) == []
            first = next((row for row in its if row.status not in TERMINAL), None)
            if first is not None and first.status == "queued" and not first.lease_until:
                free.add(first.id)
        claimable_ids = set(self._harness.claimable())
        unannounced = [run_id for run_id in free if not self._rows(ANNOUNCED, id_=run_id)]
        assert unannounced == [], f"may begin, and no wake-up is published: {unannounced}"
        mine = claimable_ids & {row.id for row in rows}
        assert mine == free, f"may begin: {free}; found by the reaper: {mine}"

    def _rows(self, query: Any, **parameters: Any) -> list[Any]:
        with self._harness.database.read() as connection:
            return list(connection.execute(query, parameters).all())
