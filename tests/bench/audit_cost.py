"""What an entry of the audit log costs: stops a second with and without it, and how long a whole chain is verified.

PYTHONPATH=. .venv/bin/python -m tests.bench.audit_cost [--rounds 3] [--quick] [--json]
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from unittest.mock import patch

from bus.identity.audit.chain import verify
from bus.identity.audit.entry import Action
from bus.identity.audit.recording import record
from bus.loop import process_loop
from config.database.engine import Database, open_database
from config.database.migrate import upgrade
from config.identity.principal import LOCAL
from tests.backends import PostgresCluster, postgres_tool
from tests.bench.command import Effort, run, say
from tests.bench.report import Bar, Figure, Report
from tests.bus.journal_harness import JournalHarness, cancel

THREADS = 8


def measure(effort: Effort) -> Report:
    """Return stops a second on each database, and the time to verify a chain."""
    with tempfile.TemporaryDirectory() as folder:
        urls = {"SQLite": f"sqlite:///{folder}/stops.db"}
        figures = _of_each(urls, effort)
        figures.append(_verify(f"sqlite:///{folder}/chain.db", effort))
    if postgres_tool("initdb"):
        with PostgresCluster() as cluster:
            figures[1:1] = _of_each({"Postgres": cluster.new_database()}, effort)
    return Report(name="audit_cost", title="The audit log", figures=figures)


def _of_each(urls: dict[str, str], effort: Effort) -> list[Figure]:
    figures = []
    for name, url in urls.items():
        with _opened(url) as database:
            figures.append(_stops(name, database, effort))
    return figures


@contextmanager
def _opened(url: str) -> Iterator[Database]:
    with closing(open_database(url)) as database:
        upgrade(database)
        yield database


def _stops(name: str, database: Database, effort: Effort) -> Figure:
    rounds, references = [], []
    _stops_a_second(database, THREADS)  # statements are compiled, connections are open
    for _ in range(effort.rounds):
        with patch("bus.journal.run_end.record"):
            references.append(_stops_a_second(database, effort.pick(400, 16)))
        rounds.append(_stops_a_second(database, effort.pick(400, 16)))
    say(f"{name}: {rounds[-1]:.0f} stops/s, {references[-1]:.0f} without an entry")
    bar = Bar(compares="ratio", limit=0.5, at_least=True)
    note = f"{THREADS} threads of one process, one tenant; beside: the same without the entry"
    what = f"stops of queued runs, {name}"
    return Figure(name=what, unit="/s", rounds=rounds, references=references, bar=bar, note=note)


def _stops_a_second(database: Database, count: int) -> float:
    harness = JournalHarness(database, process_loop())
    run_ids = [harness.accept().run_id for _ in range(count)]

    def stop(mine: list[str]) -> None:
        for run_id in mine:
            cancel(database, LOCAL, run_id, LOCAL.id)

    threads = [threading.Thread(target=stop, args=(run_ids[i::THREADS],)) for i in range(THREADS)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return count / (time.perf_counter() - began)


def _verify(url: str, effort: Effort) -> Figure:
    count = effort.pick(100_000, 1_000)
    with _opened(url) as database:
        with database.write() as connection:
            for number in range(count):
                record(connection, LOCAL, Action.RUN_CONTROLLED, "run", f"run_{number}", verb="cancel", agent="tester")
        size = Path(database.engine.url.database or "").stat().st_size
        rounds = [_verified_s(database, count) for _ in range(effort.rounds)]
    say(f"{count} entries are verified in {rounds[-1]:.1f} s")
    note = f"{size / count:.0f} bytes an entry on SQLite"
    bar = Bar(compares="figure", limit=30)
    return Figure(name=f"verifying {count:,} entries", unit="s", rounds=rounds, bar=bar, note=note)


def _verified_s(database: Database, count: int) -> float:
    began = time.perf_counter()
    verification = verify(database, LOCAL.tenant)
    took_s = time.perf_counter() - began
    if verification.broken is not None or verification.entries != count:
        raise AssertionError(f"{verification.entries} of {count} entries: {verification.problem}")
    return took_s


if __name__ == "__main__":
    run(measure, __doc__)
