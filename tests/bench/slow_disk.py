"""One worker with 200 slots and a backlog of runs with an unsafe call, on a disk whose fsync is slow.

    PYTHONPATH=. .venv/bin/python -m tests.bench.slow_disk [--rounds 3] [--quick] [--json]

Chats beside the backlog are runs of another process on the same database: they share its disk, not its slots.
"""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from cli.supervisor.serving import python, worker_command
from config.database.migrate import migrate
from config.folders import ROOT
from config.settings import Settings
from tests.backends import PostgresCluster, start_redis
from tests.backlog import define_payer, outcome, queue, until_ended
from tests.bench.command import Effort, run, say
from tests.bench.processes import Process, clean_environment, model_server
from tests.bench.report import Bar, Figure, Report
from tests.bench.rigs import define_agent, environment_of
from tests.bench.slow_disk_tools import LEDGER
from tests.slow_disk import SlowDisk

SLOTS = 200
TOKENS, RATE = 20, 20
PATIENCE_S = 400.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """One row of the table: a disk, and how many runs wait for the worker."""

    delay_ms: int
    size: int
    at_least_per_s: float | None
    """The bar; None where only what became of the runs counts."""
    is_postgres: bool = False
    has_chats: bool = False

    @property
    def name(self) -> str:
        """Return how the table names it."""
        where = f"Postgres, commits of {self.delay_ms} ms" if self.is_postgres else f"SQLite, fsync {self.delay_ms} ms"
        return f"{where}: {self.size} queued runs"


LOADS = (
    Load(delay_ms=0, size=1500, at_least_per_s=35),
    Load(delay_ms=20, size=400, at_least_per_s=15, has_chats=True),
    Load(delay_ms=100, size=400, at_least_per_s=None),
    Load(delay_ms=30, size=400, at_least_per_s=None, is_postgres=True),
)


def measure(effort: Effort) -> Report:
    """Return runs per second and what became of them, on each disk."""
    figures: list[Figure] = []
    details: dict[str, Any] = {}
    for load in LOADS:
        size = effort.pick(load.size, 20)
        results = [_once(load, size) for _ in range(effort.rounds)]
        details[load.name] = results
        figures += _figures(load, size, results)
    return Report(name="slow_disk", title=f"A slow disk, {SLOTS} slots", figures=figures, details=details)


def _once(load: Load, size: int) -> dict[str, Any]:
    with contextlib.ExitStack() as open_things:
        folder = Path(open_things.enter_context(tempfile.TemporaryDirectory(prefix="cbslow")))
        url = open_things.enter_context(model_server(folder))
        settings = _settings(open_things, folder, load)
        define_payer(Path(settings.agents_dir), url, tokens=TOKENS, rate=RATE)
        (Path(settings.agents_dir) / "address").write_text(url)
        define_agent(Path(settings.agents_dir), TOKENS, RATE)
        ledger = folder / "ledger"
        env = environment_of(settings) | {LEDGER: str(ledger)}
        if not load.is_postgres:
            env |= _disk(folder, load).environment
        result = _work_off(settings, load, size, env, folder)
        say(f"  {load.name}: { {name: value for name, value in result.items() if name != 'first_token_ms'} }")
    return result


def _work_off(settings: Settings, load: Load, size: int, env: dict[str, str], folder: Path) -> dict[str, Any]:
    from agents.runner import Runner

    runner = Runner.open(settings)
    with contextlib.ExitStack() as open_things:
        open_things.callback(runner.close)
        queue(runner, size)
        chats = open_things.enter_context(_chatting(env)) if load.has_chats else None
        worker = Process("worker", worker_command("worker-1", None), folder / "worker.log", env=env)
        open_things.callback(worker.stop)
        worker.wait_for(" ready.")
        began_s = time.monotonic()
        if chats is not None:
            _say(chats, "begin")
        until_ended(runner.journal.database, size, PATIENCE_S)
        took_s = time.monotonic() - began_s
        first_token_ms = orjson.loads(_say(chats, "end")) if chats is not None else []
        came = outcome(runner.journal.database, Path(env[LEDGER]), worker.log)
    return {"per_s": size / took_s, "clean": came.is_clean(size), "first_token_ms": first_token_ms, **asdict(came)}


@contextlib.contextmanager
def _chatting(env: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Yield another process that chats between two lines on its stdin."""
    chats = subprocess.Popen(
        python("tests.bench.slow_disk_chats"),
        cwd=ROOT,
        env=clean_environment(env),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert chats.stdout is not None
        assert chats.stdout.readline() == b"ready\n"
        yield chats
    finally:
        chats.kill()
        chats.communicate()


def _say(chats: subprocess.Popen[bytes], word: str) -> bytes:
    """Write a line; behind the last one, return what was answered."""
    assert chats.stdin is not None
    assert chats.stdout is not None
    chats.stdin.write(f"{word}\n".encode())
    chats.stdin.flush()
    return chats.stdout.readline() if word == "end" else b""


def _settings(open_things: contextlib.ExitStack, folder: Path, load: Load) -> Settings:
    (folder / "agents").mkdir()
    redis = start_redis(Settings(state_dir=folder / "state"))
    open_things.callback(redis.stop)
    values: dict[str, Any] = {
        "redis_url": redis.url,
        "state_dir": folder / "state",
        "agents_dir": str(folder / "agents"),
        "workers": 1,
        "slots": SLOTS,
    }
    if load.is_postgres:
        cluster = open_things.enter_context(PostgresCluster(_disk(folder, load)))
        values["database_url"] = cluster.new_database()
    settings = Settings(**values)
    migrate(settings)
    return settings


def _disk(folder: Path, load: Load) -> SlowDisk:
    disk = SlowDisk(folder)
    disk.delay(load.delay_ms)
    return disk


def _figures(load: Load, size: int, results: list[dict[str, Any]]) -> list[Figure]:
    speed = [result["per_s"] for result in results]
    bar = None if load.at_least_per_s is None else Bar(compares="figure", limit=load.at_least_per_s, at_least=True)
    figures = [
        Figure(name=load.name, unit="runs/s", rounds=speed, bar=bar),
        Figure(
            name=f"{load.name}: not succeeded with one owner and one call",
            unit="",
            rounds=[
                size - result["succeeded"] + result["crashes"] + result["unknown"] + (not result["clean"])
                for result in results
            ],
            bar=Bar(compares="figure", limit=0),
        ),
    ]
    if load.has_chats:
        p99 = [_p99(result["first_token_ms"]) for result in results]
        name = "first token of a chat of another process beside it, p99 (the model takes 50 of it)"
        figures.append(Figure(name=name, unit="ms", rounds=p99, bar=Bar(compares="figure", limit=1000)))
    return figures


def _p99(values: list[float]) -> float:
    return sorted(values)[max(0, round(len(values) * 0.99) - 1)] if values else float("inf")


if __name__ == "__main__":
    run(measure, __doc__)
