"""How long ``Runner.run(detached=True)`` takes, beside a bare Celery ``delay`` on the same Redis, in turns.

    PYTHONPATH=. .venv/bin/python -m tests.bench.accept_cost [--rounds 3] [--quick] [--json]

When the one returns, the run is committed in SQLite with its outbox row; when the other does, a message is in Redis.
"""

from __future__ import annotations

import contextlib
import gc
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from config.redis.url import broker_form
from config.settings import Settings
from tests.bench.command import Effort, run, say
from tests.bench.report import Bar, Figure, Report

if TYPE_CHECKING:
    from agents.runner import Runner

PAUSES_S = (0.005, 0.010)
"""Calls come one each 5 to 10 ms, as from people; flat out, one's work after it returned would slow the other."""
WARM = 50


def measure(effort: Effort) -> Report:
    """Return the two medians, and the slow ones."""
    calls = effort.pick(300, 40)
    ours: list[list[float]] = []
    bare: list[list[float]] = []
    with _open() as (runner, delay):

        def accept() -> None:
            runner.run("Count, please.", "bench", detached=True)

        _in_turns(accept, delay, WARM if not effort.is_quick else 5)
        gc.collect()
        gc.freeze()
        for number in range(effort.rounds):
            mine, its = _in_turns(accept, delay, calls)
            ours.append(sorted(mine))
            bare.append(sorted(its))
            say(f"round {number + 1}: run {_median_us(mine):.0f} µs, delay {_median_us(its):.0f} µs")
    figures = [
        Figure(
            name="run(detached=True) returns, p50",
            unit="µs",
            rounds=[_median_us(times) for times in ours],
            references=[_median_us(times) for times in bare],
            bar=Bar(compares="ratio", limit=1.5),
            note="SQLite; beside a bare delay",
        ),
        Figure(
            name="the same, p95",
            unit="µs",
            rounds=[_p95_us(times) for times in ours],
            references=[_p95_us(times) for times in bare],
        ),
    ]
    return Report(name="accept_cost", title="Accepting a run", figures=figures, details={"calls": calls})


def _in_turns(first: Callable[[], object], second: Callable[[], object], times: int) -> tuple[list[float], list[float]]:
    """Return the seconds of each call of the two; who begins changes."""
    dice = random.Random(7)
    taken: tuple[list[float], list[float]] = ([], [])
    for number in range(times):
        pair = [(first, taken[0]), (second, taken[1])]
        for function, into in pair if number % 2 else reversed(pair):
            time.sleep(dice.uniform(*PAUSES_S))
            began = time.perf_counter()
            function()
            into.append(time.perf_counter() - began)
    return taken


@contextlib.contextmanager
def _open() -> Iterator[tuple[Runner, Callable[[], Any]]]:
    """Yield a runner on a Redis and a SQLite of their own, and a bare task's ``delay`` on the same Redis."""
    from celery import Celery

    from agents.runner import Runner
    from config.database.migrate import migrate
    from tests.backends import start_redis

    with tempfile.TemporaryDirectory(prefix="cbbench") as name:
        folder = Path(name)
        (folder / "bench.yaml").write_text("name: Bench\nmodel: demo/assistant\nsystem_prompt: Count.\n")
        redis = start_redis(Settings(state_dir=folder / "state"))
        try:
            settings = Settings(redis_url=redis.url, state_dir=folder / "state", agents_dir=str(folder))
            migrate(settings)
            _adopt(settings)
            bare = Celery("bare", broker=broker_form(redis.url), set_as_current=False)
            bare.conf.task_ignore_result = True
            task = bare.task(name="bare.answer")(_answer)
            runner = Runner.open(settings)
            try:
                yield runner, lambda: task.delay("run_0123456789")
            finally:
                runner.close()
        finally:
            redis.stop()


def _answer(run_id: str) -> None:
    """No worker ever runs it."""


def _adopt(settings: Settings) -> None:
    """Let this process's Celery read the bench's settings, as a web process reads its own."""
    import os

    from config import settings as module
    from tests.bench.rigs import environment_of

    os.environ.update(environment_of(settings))
    module.settings.cache_clear()


def _median_us(seconds: list[float]) -> float:
    return statistics.median(seconds) * 1e6


def _p95_us(seconds: list[float]) -> float:
    return sorted(seconds)[int(len(seconds) * 0.95)] * 1e6


if __name__ == "__main__":
    run(measure, __doc__)
