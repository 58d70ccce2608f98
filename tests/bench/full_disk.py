"""Outages of a full disk, each longer than a lease, under runs whose unsafe call is under way; two workers, SQLite.

    PYTHONPATH=. .venv/bin/python -m tests.bench.full_disk [--quick] [--json]

Each outage begins when every run is in its call. The rounds of other measurements are the outages here.
"""

from __future__ import annotations

import contextlib
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from agents.runner import Runner
from cli.supervisor.serving import worker_command
from config.database.migrate import migrate
from config.settings import Settings
from tests.backends import start_redis
from tests.backlog import Outcome, define_payer, outcome, queue, until_ended
from tests.bench.command import Effort, run, say
from tests.bench.processes import Process, model_server
from tests.bench.report import Bar, Figure, Report
from tests.bench.rigs import environment_of
from tests.bench.slow_disk_tools import LEDGER, PAY_S
from tests.slow_disk import SlowDisk

OUTAGES, FULL_S, SIZE = 8, 33, 12
TOKENS, RATE = 20, 20
CALL_S = 4.0
"""Seconds that each call takes: the outage begins meanwhile."""
PATIENCE_S = 180.0


def measure(effort: Effort) -> Report:
    """Return what became of the runs of all outages."""
    outages, full_s = effort.pick(OUTAGES, 1), effort.pick(FULL_S, 20)
    with tempfile.TemporaryDirectory(prefix="cbfull") as folder:
        came = endure(Path(folder), outages=outages, full_s=full_s)
    counts = {
        "crashes": came.crashes,
        "calls of unknown outcome": came.unknown,
        "runs that did not succeed": outages * SIZE - came.succeeded,
    }
    bar = Bar(compares="figure", limit=0)
    title = f"A full disk of {full_s} s, {outages} times, {SIZE} runs in each"
    figures = [Figure(name=name, unit="", rounds=[count], bar=bar) for name, count in counts.items()]
    return Report(name="full_disk", title=title, figures=figures, details=asdict(came))


def endure(folder: Path, *, outages: int, full_s: float, **periods: float) -> Outcome:
    """Return what became of the runs of so many outages; ``periods`` replace those of an installation."""
    disk = SlowDisk(folder)
    with _fleet(folder, disk, periods) as (runner, logs):
        settings = runner.journal.settings
        for number in range(1, outages + 1):
            queue(runner, SIZE)
            _until(partial(_has_arrived, folder / "ledger", number * SIZE))
            _empty_the_log(settings)
            disk.fill()
            time.sleep(full_s)  # the outage's length is the scenario
            disk.delay(0)
            took_s = until_ended(runner.journal.database, number * SIZE, PATIENCE_S)
            came = outcome(runner.journal.database, folder / "ledger", logs)
            say(f"  outage {number}, over after {took_s:.1f} s: {came}")
    return came


@contextlib.contextmanager
def _fleet(folder: Path, disk: SlowDisk, periods: dict[str, float]) -> Iterator[tuple[Runner, Path]]:
    """Yield a runner whose disk is well, and the log of two workers that have ``disk``."""
    (folder / "agents").mkdir()
    log = folder / "worker.log"
    with contextlib.ExitStack() as open_things:
        url = open_things.enter_context(model_server(folder))
        define_payer(folder / "agents", url, tokens=TOKENS, rate=RATE)
        redis = start_redis(Settings(state_dir=folder / "state"))
        open_things.callback(redis.stop)
        values: dict[str, Any] = {"redis_url": redis.url, "state_dir": folder / "state", "workers": 2}
        settings = Settings(agents_dir=str(folder / "agents"), **values | periods)
        migrate(settings)
        runner = Runner.open(settings)
        open_things.callback(runner.close)
        of_tool = {LEDGER: str(folder / "ledger"), PAY_S: str(CALL_S)}
        for name in ("worker-1", "worker-2"):
            env = environment_of(settings) | of_tool | disk.environment
            worker = Process(name, worker_command(name, None), log, env=env)
            open_things.callback(worker.stop)
        _until(lambda: log.read_text().count(" ready.") == 2)
        yield runner, log


def _empty_the_log(settings: Settings) -> None:
    """Leave no room in SQLite's log: what has been copied into the database is overwritten without growing the file."""
    with contextlib.closing(sqlite3.connect(settings.database.removeprefix("sqlite:///"))) as connection:
        _until(lambda: connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0)


def _has_arrived(ledger: Path, calls: int) -> bool:
    return ledger.exists() and len(ledger.read_text().splitlines()) >= calls


def _until(is_true: Callable[[], bool]) -> None:
    """Return when other processes have done what is waited for."""
    until_s = time.monotonic() + PATIENCE_S
    while not is_true():
        if time.monotonic() > until_s:
            raise TimeoutError("the fleet did not get that far.")
        time.sleep(0.05)


if __name__ == "__main__":
    run(measure, __doc__)
