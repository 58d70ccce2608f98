"""What has to hold when the dust has settled: each run's invariants, and what people saw and what arrived outside."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from sqlalchemy import Connection, func, select

from bus.journal.queries.run_record import RunRecord, record_of
from bus.journal.states.crashes import SUSPECT_AFTER
from cli.crashlab.invariants import not_recovered, thread_breaches, view_breaches
from config.database.engine import Database
from config.database.tables import outbox, runs
from tests.soak.effects import Outside, after_the_stop, decided_twice, keyed_twice, recomputed, unfounded, ungated
from tests.soak.load import Seen, Started
from tests.soak.shop import entries
from tests.soak.talk import Asked, output_of


def records_of(connection: Connection) -> dict[str, RunRecord]:
    """Return every run, the oldest of each thread first."""
    rows = connection.execute(select(runs).order_by(runs.c.thread_key, runs.c.turn)).all()
    return {row.id: record_of(connection, row) for row in rows}


def broken(database: Database, seen: Seen, requests: Sequence[Asked], ledger: Path) -> Iterator[str]:
    """Yield a sentence for everything that does not hold of what people saw, the model was asked, and arrived."""
    with database.read() as connection:
        records = records_of(connection)
        for started in seen.started:
            if started.run_id not in records:
                yield f"{started.run_id} was answered and is not there"
        yield from _of_runs(records)
        yield from _of_text(records, seen.started)
        if left := connection.execute(select(func.count()).select_from(outbox)).scalar_one():
            yield f"{left} wake-ups are still in the outbox"
        outside = Outside(
            connection=connection, records=records, entries=list(entries(ledger)), asked=requests, started=seen.started
        )
        for look in (unfounded, keyed_twice, recomputed, ungated, after_the_stop):
            yield from look(outside)
        yield from decided_twice(outside, seen.answered)
    for watched in seen.watched:
        if watched.run_id in records:
            for breach in view_breaches(records[watched.run_id], watched.events):
                yield f"{watched.run_id}, {watched.connections} connections: {breach}"


def _of_runs(records: dict[str, RunRecord]) -> Iterator[str]:
    threads: dict[int, list[RunRecord]] = defaultdict(list)
    for run_id, record in records.items():
        threads[record.run["thread_key"]].append(record)
        for breach in not_recovered(record):
            yield f"{run_id}: {breach}"
    for of_thread in threads.values():
        yield from thread_breaches(of_thread)


def _of_text(records: dict[str, RunRecord], all_started: Sequence[Started]) -> Iterator[str]:
    for started in all_started:
        if started.run_id not in records:
            continue
        run = records[started.run_id].run
        if run["status"] == "succeeded" and run["output"] != output_of(started.sentence):
            yield f"the answer of {run['id']} is not what the model said"
        was_stopped = run["status"] == "cancelled" and started.is_stopped
        is_expected = was_stopped or (run["status"] == "dead" and run["crashes"] > SUSPECT_AFTER)
        if run["status"] != "succeeded" and not is_expected:
            yield f"{run['id']} ended {run['status']} for no cause ({run['reason']}); crashes {run['crashes']}"
