"""Observers that tail the log: fed the past, shared by two processes, behind 200 streams, and bad ones beside runs.

    PYTHONPATH=. .venv/bin/python -m tests.bench.tailing [--rounds 3] [--quick] [--json]

The log that is fed again has a million events of runs with ten each, on SQLite; beside it a loop reads the same rows
and decodes nothing. The two processes feed an observer that waits for 2 ms an event. Behind the streams, which web,
worker and Redis serve as `up` starts them, an observer notes how long after its number each event came. The bad
observer raises, hangs and keeps everything; the runs' times are compared with those without it, in turns.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import select

from bus.journal.tailing import ObserverCursors, ObserverState, observer_states
from cli.supervisor.serving import python
from config.database.engine import WALL_MS, Database, open_database
from config.database.migrate import migrate
from config.database.tables import events, runs
from config.settings import Settings
from tests.bench import rigs, tailing_sinks
from tests.bench.command import Effort, run, say
from tests.bench.processes import NotReady, Process, clean_environment, model_server, resident_mib, tree
from tests.bench.report import Bar, Figure, Report
from tests.tailed_log import TailedLog

EVENTS, SHARED, RUNS = 1_000_000, 10_000, 10_000
STREAMS, TOKENS, RATE = 200, 60, 10
PATIENCE_S = 300.0


def measure(effort: Effort) -> Report:
    """Return how quickly the past is fed, what a second process gains, how late events are, and what bad ones cost."""
    count, shared, streams = effort.pick(EVENTS, 20_000), effort.pick(SHARED, 400), effort.pick(STREAMS, 10)
    os.environ["CALLBOARD_TOOL_MODULES"] = "tests.bench.tailing_sinks"
    with tempfile.TemporaryDirectory(prefix="cbbench") as name:
        folder = Path(name)
        os.environ[tailing_sinks.FILE] = str(folder / "tailed")
        figures = [*_past(folder / "past", count, effort.rounds), _shared(folder / "shared", shared, effort.rounds)]
        figures.append(_scrapes(folder / "metrics", effort.pick(RUNS, 500), effort.rounds))
        figures += _beside_streams(folder / "live", streams, effort.rounds)
    return Report(name="tailing", title="Observers that tail the log", figures=figures)


# --- the past


def _past(folder: Path, count: int, rounds: int) -> list[Figure]:
    rates, plain, growth = [], [], []
    with _log(folder, count, length=10) as (settings, database):
        for number in range(rounds):
            began_s = time.perf_counter()
            _read_plainly(database)
            plain.append(count / (time.perf_counter() - began_s))
            with _observe(settings, folder, "noting", start="beginning") as process:
                first_mib = _mib_after(process, database, "noting", count // 10)
                began_s = time.perf_counter()
                _until(database, "noting", count)
                rates.append(count * 0.9 / (time.perf_counter() - began_s))
                growth.append(_mib(process) - first_mib)
            ObserverCursors(database).remove("noting")
            say(f"round {number + 1}: {rates[-1]:.0f} events a second, {growth[-1]:+.1f} MiB")
    return [
        Figure(
            name=f"{count:,} stored events fed again, by one thread",
            unit="/s",
            rounds=rates,
            references=plain,
            bar=Bar(compares="figure", limit=20_000, at_least=True),
            note="beside: the same rows read and not decoded",
        ),
        Figure(
            name="growth of its memory, from a tenth of them to the end",
            unit="MiB",
            rounds=growth,
            bar=Bar(compares="figure", limit=16),
        ),
    ]


def _read_plainly(database: Database) -> None:
    position = 0
    while True:
        query = select(events).where(events.c.position > position).order_by(events.c.position).limit(1000)
        with database.read() as connection:
            rows = connection.execute(query).all()
        if not rows:
            return
        position = rows[-1].position


# --- two processes


def _shared(folder: Path, count: int, rounds: int) -> Figure:
    rates: dict[int, list[float]] = {1: [], 2: []}
    with _log(folder, count, length=10) as (settings, database):
        for number in range(rounds):
            for processes, measured in rates.items():
                measured.append(_rate_of(settings, folder, database, count, processes))
                ObserverCursors(database).remove("waiting")
            say(f"round {number + 1}: {rates[1][-1]:.0f} and {rates[2][-1]:.0f} events a second")
    return Figure(
        name="two processes with one name, 2 ms an event",
        unit="/s",
        rounds=rates[2],
        references=rates[1],
        bar=Bar(compares="ratio", limit=1.8, at_least=True),
        note="beside: one process",
    )


def _rate_of(settings: Settings, folder: Path, database: Database, count: int, processes: int) -> float:
    with contextlib.ExitStack() as stack:
        ObserverCursors(database).register("waiting", "", "reliable", None, "beginning")
        ObserverCursors(database).pause("waiting", is_paused=True)
        for _ in range(processes):
            stack.enter_context(_observe(settings, folder, "waiting", start="beginning"))
        until_s = time.monotonic() + 30
        while len(_state(database, "waiting").threads) < processes:
            if time.monotonic() > until_s:
                raise NotReady("a process does not feed the observer")
            time.sleep(0.05)
        time.sleep(2.5)  # each has its share by then
        began_s = time.perf_counter()  # also until the pause's end is seen, up to a second
        ObserverCursors(database).pause("waiting", is_paused=False)
        _until(database, "waiting", count)
        return count / (time.perf_counter() - began_s)


# --- behind streams


def _beside_streams(folder: Path, streams: int, rounds: int) -> list[Figure]:
    lags, with_bad, without = [], [], []
    folder.mkdir()
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(model_server(folder))
        rig = stack.enter_context(rigs.callboard(folder, url))
        assert rig.settings is not None
        database = stack.enter_context(contextlib.closing(open_database(rig.settings.database)))
        rig.load(streams=streams, tokens=TOKENS, rate=RATE)
        for number in range(rounds):
            without.append(_run_ms(rig, database, streams))
            with _observe(rig.settings, folder, "late", start="now"):
                Path(os.environ[tailing_sinks.FILE]).unlink(missing_ok=True)
                rig.load(streams=streams, tokens=TOKENS, rate=RATE)
                time.sleep(1.0)
                lines = Path(os.environ[tailing_sinks.FILE]).read_text().split()
                lags.append(statistics.quantiles([float(line) for line in lines], n=100)[98])
            with _observe(rig.settings, folder, "bad", start="now"):
                with_bad.append(_run_ms(rig, database, streams))
            for name in ("late", "bad"):  # or else the next round would be fed what came in between
                ObserverCursors(database).remove(name)
            say(f"round {number + 1}: p99 {lags[-1]:.0f} ms; runs {without[-1]:.0f} and {with_bad[-1]:.0f} ms")
    return [
        Figure(
            name=f"lag p99 behind {streams} streaming runs",
            unit="ms",
            rounds=lags,
            bar=Bar(compares="figure", limit=250),
        ),
        Figure(
            name="a run's time with an observer that raises, hangs and keeps everything, median",
            unit="ms",
            rounds=with_bad,
            references=without,
            bar=Bar(compares="ratio", limit=1.03),
            note="beside: without it",
        ),
    ]


def _run_ms(rig: rigs.Rig, database: Database, streams: int) -> float:
    """Have so many runs streamed, and return the median of their times from acceptance to end."""
    with database.read() as connection:
        began_ms = connection.execute(select(WALL_MS)).scalar_one()
    rig.load(streams=streams, tokens=TOKENS, rate=RATE)
    query = select(runs.c.ended_ms - runs.c.created_ms).where(runs.c.created_ms >= began_ms, runs.c.ended_ms > 0)
    with database.read() as connection:
        return float(statistics.median(connection.execute(query).scalars().all()))


# --- metrics


def _scrapes(folder: Path, count: int, rounds: int) -> Figure:
    """Return how long `/metrics` takes beside `/health`, with so many runs counted and a hundredth of them open."""
    folder.mkdir()
    scrapes, healths = [], []
    with rigs.callboard(folder, "none") as rig:
        assert rig.settings is not None
        with contextlib.closing(open_database(rig.settings.database)) as database:
            log = TailedLog(database)
            ended = log.runs(count, tenant="acme", status="succeeded", ended_ms=1)
            log.turn(ended)
            log.runs(max(1, count // 100), status="running")
            with _observe(rig.settings, folder, "metrics", start="beginning"):
                _until(database, "metrics", 3 * count)
        for _ in range(rounds):
            scrapes.append(statistics.median(_get_ms(rig.port, "/metrics") for _ in range(20)))
            healths.append(statistics.median(_get_ms(rig.port, "/health") for _ in range(20)))
    return Figure(
        name=f"a scrape of /metrics, with {count:,} runs",
        unit="ms",
        rounds=scrapes,
        references=healths,
        bar=Bar(compares="figure", limit=50),
        note="beside: /health",
    )


def _get_ms(port: int, path: str) -> float:
    began_s = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    with contextlib.closing(connection):
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
    if answer.status != 200:
        raise NotReady(f"{path} answered {answer.status}")
    return (time.perf_counter() - began_s) * 1000


# --- processes and logs


@contextlib.contextmanager
def _log(folder: Path, count: int, length: int) -> Iterator[tuple[Settings, Database]]:
    settings = Settings(state_dir=folder)
    migrate(settings)
    with contextlib.closing(open_database(settings.database)) as database:
        log = TailedLog(database)
        for _ in range(max(1, count // (length * 1000))):
            log.turn(log.runs(min(1000, count // length)), messages=length - 2)
        yield settings, database


@contextlib.contextmanager
def _observe(settings: Settings, folder: Path, name: str, *, start: str) -> Iterator[Process]:
    kind = name if name == "metrics" else f"tests.bench.tailing_sinks:{name.capitalize()}"
    declared = folder / "observers.yaml"
    declared.write_text(f"{name}: {{class: '{kind}', start: {start}}}\n")
    env = clean_environment(rigs.environment_of(settings)) | {"CALLBOARD_OBSERVERS_FILE": str(declared)}
    env |= {key: os.environ[key] for key in ("CALLBOARD_TOOL_MODULES", tailing_sinks.FILE)}
    argv = [*python("cli"), "observe", name]
    process = Process(f"observe-{name}", argv, folder / f"observe-{time.monotonic_ns()}.log", env=env)
    try:
        process.wait_for("feeding")
        yield process
    finally:
        process.stop()


def _state(database: Database, name: str) -> ObserverState:
    with database.read() as connection:
        return next(state for state in observer_states(connection) if state.name == name)


def _until(database: Database, name: str, count: int) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while _state(database, name).delivered < count:
        if time.monotonic() > until_s:
            raise NotReady(f"only {_state(database, name).delivered} of {count} events were delivered")
        time.sleep(0.02)


def _mib_after(process: Process, database: Database, name: str, count: int) -> float:
    _until(database, name, count)
    return _mib(process)


def _mib(process: Process) -> float:
    return sum(resident_mib(pid) for pid in tree(process.pid))


if __name__ == "__main__":
    run(measure, __doc__)
