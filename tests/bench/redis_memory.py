"""How much of Redis, and of the worker, a run takes that streams a million tokens; and what is left behind its end.

    PYTHONPATH=. .venv/bin/python -m tests.bench.redis_memory [--quick] [--json]

Everything is real but the model: the synchronous route in this process, SQLite, a Redis of its own, LiteLLM over HTTP
to a model server that is another process and sends as fast as it can. Redis is asked ten times a second what the
run's keys weigh (``MEMORY USAGE`` over every entry).
"""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from os import getpid
from pathlib import Path
from typing import TYPE_CHECKING

from config.settings import Settings
from tests.bench.command import Effort, run, say
from tests.bench.processes import model_server, resident_mib
from tests.bench.report import Bar, Figure, Report

if TYPE_CHECKING:
    import redis

    from agents.runner import Runner

EVERY_S = 0.1
MARKS = (50, 90)
"""How many percent of the answer are there when this process is weighed."""
AFTER_END_KIB = 64


@dataclass(slots=True)
class Scales:
    """Weighs a run's keys, and this process, while the run streams."""

    client: redis.Redis
    names: tuple[str, str]
    most: int = 0
    looks: int = 0
    sizes_mib: list[float] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)

    def weigh(self) -> int:
        """Return the bytes of the run's keys now."""
        return sum(self.client.memory_usage(name, samples=0) or 0 for name in self.names)

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Weigh again and again."""
        thread = threading.Thread(target=self._watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join(10)

    def _watch(self) -> None:
        while not self._over.wait(EVERY_S):
            self.most = max(self.most, self.weigh())
            self.sizes_mib.append(resident_mib(getpid()))
            self.looks += 1


def measure(effort: Effort) -> Report:
    """Return the weight during the stream, behind its end, and that of this process."""

    tokens = effort.pick(1_000_000, 100_000)
    with _open(tokens) as (runner, client):
        runner.run("Count, please.", "short").result(120)  # imports LiteLLM
        before_mib = resident_mib(getpid())
        began_s = time.monotonic()
        handle = runner.run("Count, please.", "long")
        keys = runner.journal.live.keys
        scales = Scales(client, (keys.stream("default", handle.run_id), keys.meta("default", handle.run_id)))
        with scales.watching():
            end = handle.result(1800)
        took_s = time.monotonic() - began_s
        assert end.status == "succeeded", (end, runner.journal.readers.runs.last_error(handle.run_id))
        runner.settle(30)
        left = _settled(scales)
        expiries_ms = [client.pttl(name) for name in scales.names]
    assert all(0 < left_ms <= runner.settings.hot_log_ttl_s * 1000 for left_ms in expiries_ms), expiries_ms
    say(f"{tokens} tokens in {took_s:.0f} s, weighed {scales.looks} times")
    budget_kib = runner.settings.hot_log_max_bytes / 1024
    middle_mib, last_mib = scales.sizes_mib[scales.looks // 2], max(scales.sizes_mib)
    figures = [
        Figure(
            name=f"Redis memory of a run of {tokens:,} tokens, at most while it streams",
            unit="KiB",
            rounds=[scales.most / 1024],
            bar=Bar(compares="figure", limit=budget_kib),
            note=f"a budget of {budget_kib:,.0f} KiB of events",
        ),
        Figure(
            name="the same, behind its end",
            unit="KiB",
            rounds=[left / 1024],
            bar=Bar(compares="figure", limit=AFTER_END_KIB),
        ),
        Figure(
            name="keys of the run without an expiry",
            unit="",
            rounds=[float(sum(ms < 0 for ms in expiries_ms))],
            bar=Bar(compares="figure", limit=0),
        ),
        Figure(
            name="the worker's memory, at most while it streams",
            unit="MiB",
            rounds=[last_mib],
            references=[before_mib],
            note=f"{middle_mib:.0f} in the middle; beside before the run",
        ),
        Figure(name="tokens a second", unit="", rounds=[tokens / took_s]),
    ]
    return Report(name="redis_memory", title="What a long stream weighs", figures=figures)


def _settled(scales: Scales) -> int:
    """Return what the keys weigh once the run's writer has released them, which it does soon after the end."""
    until_s = time.monotonic() + 10
    while scales.weigh() > AFTER_END_KIB * 1024 and time.monotonic() < until_s:
        time.sleep(0.05)
    return scales.weigh()


@contextlib.contextmanager
def _open(tokens: int) -> Iterator[tuple[Runner, redis.Redis]]:
    import redis

    from agents.runner import Runner
    from config.database.migrate import migrate
    from tests.backends import start_redis

    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cbbench")))
        url = stack.enter_context(model_server(folder))
        for name, count in {"short": 10, "long": tokens}.items():
            (folder / f"{name}.yaml").write_text(
                f"name: Bench\nmodel: openai/plain-{count}\napi_base: {url}\nsystem_prompt: Count.\n"
                "timeouts: {total_s: 3600}\n"
            )
        running = start_redis(Settings(state_dir=folder / "state"))
        stack.callback(running.stop)
        settings = Settings(redis_url=running.url, state_dir=folder / "state", agents_dir=str(folder))
        migrate(settings)
        runner = Runner.open(settings)
        stack.callback(runner.close)
        yield runner, stack.enter_context(redis.Redis.from_url(running.url))


if __name__ == "__main__":
    run(measure, __doc__)
