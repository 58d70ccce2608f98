"""What 100 000 runs that wait for a person cost a claim, beside the same database without them.

    PYTHONPATH=. .venv/bin/python -m tests.bench.waiting_runs [--rounds 3] [--quick] [--json]

One run asks a person, and its rows are copied in SQL, each copy in a thread of its own. Then both databases take turns:
a run is accepted, the look of a poller finds it, and an owner claims it and ends it.
"""

from __future__ import annotations

import contextlib
import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import BigInteger, Column, cast, insert, literal, select, text, true

from bus.journal.owner import ClaimTerms, Lease
from bus.journal.ownership.leases import claim_on
from bus.journal.ownership.reaper import Reaper
from bus.journal.unowned.runs import UnownedRuns
from bus.loop import process_loop
from config.database.engine import Database, open_database
from config.database.migrate import upgrade
from config.database.tables import approvals, events, messages, runs, steps, threads, timers
from config.settings import Settings
from tests.backends import PostgresCluster, postgres_tool
from tests.bench.command import Effort, run, say
from tests.bench.report import Bar, Figure, Report
from tests.bus.journal_harness import ALL_QUEUES, JournalHarness, Owner
from tests.bus.questions import asks

WAITING, CLAIMS = 100_000, 200
TABLES = (threads, runs, messages, events, steps, approvals, timers)
"""In the order in which their rows need each other."""
NAMES = {"id", "run_id", "thread_id", "step_id", "open_run"}
KEYS = {"key", "thread_key"}
AT_ONCE = 10_000
"""Copies that a statement makes: it ends within the limit of every statement."""
FAR = 1_000_000
"""Added to the key of a copied thread: the database gives the keys before to the threads of later runs."""
WORK = {
    "claim": "a claim, with its commit",
    "look": "a poller's look for queued runs",
    "reap": "a look of the reaper, which every process has",
}


def measure(effort: Effort) -> Report:
    """Return what a claim costs on each database."""
    count, claims = effort.pick(WAITING, 2_000), effort.pick(CLAIMS, 20)
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="cbbench") as folder:
        urls = (f"sqlite:///{Path(folder) / f'{name}.db'}" for name in itertools.count())
        figures += _on("SQLite", lambda: next(urls), count, claims, effort.rounds)
    if postgres_tool("initdb") is not None:
        with PostgresCluster() as cluster:
            figures += _on("Postgres", cluster.new_database, count, claims, effort.rounds)
    return Report(name="waiting_runs", title=f"Claims beside {count:,} runs that wait for a person", figures=figures)


def _on(what: str, new_url: Callable[[], str], count: int, claims: int, rounds: int) -> list[Figure]:
    times: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in WORK}
    with _opened(new_url()) as full, _opened(new_url()) as bare:
        began_s = time.monotonic()
        fill(full, count)
        say(f"{what}: {count:,} runs wait (written in {time.monotonic() - began_s:.0f} s)")
        _in_turns(full, bare, 20)
        for actors in (full, bare) if what == "Postgres" else ():  # as autovacuum does within a minute
            with actors.harness.database.write() as connection:
                connection.execute(text("ANALYZE"))
        for _ in range(rounds):
            for name, pair in _in_turns(full, bare, claims).items():
                for into, seconds in zip(times[name], pair, strict=True):
                    into.append(statistics.median(seconds) * 1e6)
            line = (f"{name} {mine[-1]:.0f} / {its[-1]:.0f} µs" for name, (mine, its) in times.items())
            say(f"  {what}: {', '.join(line)}")
    return [
        Figure(
            name=f"{what}: {WORK[name]}",
            unit="µs",
            rounds=mine,
            references=its,
            bar=Bar(compares="ratio", limit=1.1) if name != "reap" else None,
            note="beside: none waits" if name == "claim" else "",
        )
        for name, (mine, its) in times.items()
    ]


def _in_turns(full: Actors, bare: Actors, claims: int) -> dict[str, tuple[list[float], list[float]]]:
    times: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in WORK}
    for turn in range(claims):
        pair = [(0, full), (1, bare)]
        for which, actors in pair if turn % 2 else reversed(pair):
            for name, seconds in actors.take_one().items():
                times[name][which].append(seconds)
    return times


class Actors:
    """A client, a poller, an owner and a reaper of one database."""

    def __init__(self, database: Database) -> None:
        self.harness = JournalHarness(database, process_loop())
        self._poller = UnownedRuns(database, "own_poller", 60.0, lambda written: None)
        self._reaper = Reaper(database, Settings(), lambda written: None)

    def take_one(self) -> dict[str, float]:
        """Have a run accepted, queued, claimed and ended, and return the seconds of each kind of work."""
        accepted = self.harness.accept()
        marks = [time.perf_counter()]
        queued = self._poller.claimable(16, ALL_QUEUES)
        marks.append(time.perf_counter())
        lease = self._claim(accepted.run_id)
        marks.append(time.perf_counter())
        self._reaper.look()
        marks.append(time.perf_counter())
        assert [row.id for row in queued] == [accepted.run_id]
        assert lease is not None
        self.harness.do(Owner(self.harness, lease).end())
        return dict(zip(("look", "claim", "reap"), (b - a for a, b in itertools.pairwise(marks)), strict=True))

    def _claim(self, run_id: str) -> Lease | None:
        """Claim the run on a worker's terms, where none of a higher priority is queued."""
        database, terms = self.harness.database, ClaimTerms(run_id=run_id, queues=ALL_QUEUES, in_order=True)
        with database.write() as connection:
            return claim_on(connection, database, run_id, "own_bench", 60.0, terms)


@contextlib.contextmanager
def _opened(url: str) -> Iterator[Actors]:
    with contextlib.closing(open_database(url)) as database:
        upgrade(database)
        yield Actors(database)


# --- the runs that wait


def fill(actors: Actors, count: int) -> None:
    """Have a run ask a person, and copy its rows until so many runs wait."""
    database = actors.harness.database
    run_id = actors.harness.accept().run_id
    asks(database, run_id)
    with database.read() as connection:
        thread_key = connection.execute(select(runs.c.thread_key).where(runs.c.id == run_id)).scalar_one()
    of_run = {threads: threads.c.key == thread_key, runs: runs.c.id == run_id}
    for table, first in itertools.product(TABLES, range(1, count, AT_ONCE)):
        columns = [column for column in table.c if column.name != "position"]
        numbers = select(literal(first).label("n")).cte("numbers", recursive=True)
        last = min(first + AT_ONCE, count) - 1
        numbers = numbers.union_all(select(numbers.c.n + 1).where(numbers.c.n < last))
        which = table.c.run_id == run_id if "run_id" in table.c else of_run[table]
        copies = select(*(_copied(column, numbers.c.n) for column in columns)).join_from(table, numbers, true())
        with database.write() as connection:
            connection.execute(insert(table).from_select(columns, copies.where(which)))


def _copied(column: Column[Any], number: Any) -> Any:
    """Return a column of copy ``number``: the names of rows are its own, and it is as many seconds older."""
    if column.name in KEYS:
        return column + number + FAR
    if column.name in NAMES:
        return column + "-" + cast(number, column.type)
    if column.name == "created_ms":
        return column - cast(number, BigInteger) * 1000
    return column


if __name__ == "__main__":
    run(measure, __doc__)
