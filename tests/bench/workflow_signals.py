"""10,000 workflows that wait for a signal: what they hold, and how long a signal to one takes until a viewer sees it.

    PYTHONPATH=. .venv/bin/python -m tests.bench.workflow_signals [--rounds 3] [--quick] [--json]

Two deployments of web, worker and Redis take turns: one with these runs, one with as many that have ended, so that what
differs is what waits. A viewer reads the run's events over HTTP, a second connection posts the signal, and the delay is
from that request until the viewer has the end of the WAIT.
"""

from __future__ import annotations

import contextlib
import http.client
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import redis
from sqlalchemy import func, select

from config.database.engine import Database, open_database
from config.database.tables import runs, workers
from tests.agents.workflows.flows import chain, node
from tests.backends import PostgresCluster, postgres_tool
from tests.bench import rigs
from tests.bench.command import Effort, run, say
from tests.bench.processes import NotReady, resident_mib
from tests.bench.report import Bar, Figure, Report

WAITING, SIGNALS = 10_000, 60
AT_ONCE = 4
"""Clients that start the runs."""
P99_MS, GROWTH_MIB = 250, 32
PATIENCE_S = 900
JSON = {"Content-Type": "application/json"}


def measure(effort: Effort) -> Report:
    """Return what waits and holds nothing, and the delays of signals, on each database."""
    count, signals = effort.pick(WAITING, 100), effort.pick(SIGNALS, 5)
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="cbbench") as name, contextlib.ExitStack() as stack:
        figures += _on("SQLite", Path(name), ({}, {}), count, signals, effort.rounds)
        if postgres_tool("initdb") is not None:
            cluster = stack.enter_context(PostgresCluster())
            urls = ({"database_url": cluster.new_database()}, {"database_url": cluster.new_database()})
            figures += _on("Postgres", Path(name), urls, count, signals, effort.rounds)
    return Report(name="workflow_signals", title=f"{count:,} workflows that wait for a signal", figures=figures)


def _on(
    what: str, folder: Path, changes: Sequence[dict[str, str]], count: int, signals: int, rounds: int
) -> list[Figure]:
    with contextlib.ExitStack() as stack:
        full, bare = (
            stack.enter_context(_opened(folder / f"{what}-{name}", **change))
            for name, change in zip(("full", "bare"), changes, strict=True)
        )
        began_s = time.monotonic()
        full.fill(count)
        bare.fill(count, "ends")
        weights = full.weight_mib(), bare.weight_mib()
        say(f"{what}: {count:,} runs wait ({time.monotonic() - began_s:.0f} s): {weights[0] - weights[1]:+.1f} MiB")
        slots, messages = full.slots(), full.messages()
        for place in (full, bare):
            _delays(place, 5)
        delays: tuple[list[list[float]], list[list[float]]] = ([], [])
        for number in range(rounds):
            for place, into in ((full, delays[0]), (bare, delays[1]))[:: 1 if number % 2 else -1]:
                into.append(_delays(place, signals))
            say(f"  {what}: p50 {statistics.median(delays[0][-1]):.0f} ms, p99 {_p99(delays[0][-1]):.0f} ms")
    return [*_held(what, weights, slots, messages), *_delayed(what, delays, signals)]


def _held(what: str, weights: tuple[float, float], slots: int, messages: int) -> list[Figure]:
    none = Bar(compares="figure", limit=0)
    return [
        Figure(name=f"{what}: slots that they hold", unit="", rounds=[float(slots)], bar=none),
        Figure(name=f"{what}: messages in the broker for them", unit="", rounds=[float(messages)], bar=none),
        Figure(
            name=f"{what}: the worker's memory, once all wait",
            unit="MiB",
            rounds=[weights[0]],
            references=[weights[1]],
            bar=Bar(compares="difference", limit=GROWTH_MIB),
            note="beside: as many have ended",
        ),
    ]


def _delayed(what: str, delays: tuple[list[list[float]], list[list[float]]], signals: int) -> list[Figure]:
    full, bare = delays
    return [
        Figure(
            name=f"{what}: from a signal's request to its event at a viewer, {name}",
            unit="ms",
            rounds=[quantile(times) for times in full],
            references=[quantile(times) for times in bare],
            bar=Bar(compares="figure", limit=P99_MS) if name == "p99" else None,
            note=f"{signals} signals a round; beside: none waits",
        )
        for name, quantile in (("p50", statistics.median), ("p99", _p99))
    ]


def _p99(times: Sequence[float]) -> float:
    return sorted(times)[max(0, round(len(times) * 0.99) - 1)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Callboard as `up` runs it, with one workflow that waits."""

    rig: rigs.Rig
    database: Database

    def fill(self, count: int, workflow: str = "waits") -> list[str]:
        """Start so many runs of a workflow, and return their ids when each of them waits, or has ended."""
        shares = [count // AT_ONCE + (number < count % AT_ONCE) for number in range(AT_ONCE)]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            run_ids = [run_id for ids in pool.map(partial(self._start, workflow), shares) for run_id in ids]
        busy = select(func.count()).select_from(runs).where(runs.c.status.in_(("queued", "running")))
        until = time.monotonic() + PATIENCE_S
        while self._number(busy):
            if time.monotonic() > until:
                raise NotReady(f"{self._number(busy)} of {count} runs are under way after {PATIENCE_S} s")
            time.sleep(0.05)  # another process works on them
        return run_ids

    def _start(self, workflow: str, count: int) -> list[str]:
        with contextlib.closing(self.client()) as client:
            body = orjson.dumps({"workflow": workflow, "input": {"order": "1042"}})
            return [str(request(client, "/v1/runs", body)["run_id"]) for _ in range(count)]

    def client(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.rig.port, timeout=60)

    def weight_mib(self) -> float:
        """Return the worker's memory, once it has been idle for a moment."""
        time.sleep(2)
        return resident_mib(self.rig.pids["worker"])

    def slots(self) -> int:
        """Return how many runs the worker says that it works on, once it has looked again."""
        assert self.rig.settings is not None
        time.sleep(self.rig.settings.reap_s * 1.5)
        return self._number(select(func.sum(workers.c.busy)))

    def messages(self) -> int:
        """Return how many messages are in the broker, delivered ones that are not acknowledged included."""
        assert self.rig.settings is not None
        assert self.rig.settings.redis_url is not None
        with contextlib.closing(redis.Redis.from_url(self.rig.settings.redis_url)) as client:
            lists = sum(int(client.llen(key)) for key in client.scan_iter(_type="list"))
            return lists + int(client.hlen("unacked"))

    def _number(self, query: Any) -> int:
        with self.database.read() as connection:
            return int(connection.execute(query).scalar_one() or 0)


def request(client: http.client.HTTPConnection, path: str, body: bytes) -> Any:
    """Return the answer of a POST, which has to be accepted."""
    client.request("POST", path, body, JSON)
    answer = client.getresponse()
    text = answer.read()
    if answer.status != 202:
        raise NotReady(f"{path} was refused: {answer.status} {text.decode()[:300]}")
    return orjson.loads(text)


@contextlib.contextmanager
def _opened(folder: Path, **changes: Any) -> Iterator[Place]:
    folder.mkdir()
    with contextlib.ExitStack() as stack:
        rig = stack.enter_context(rigs.callboard(folder, "none", **changes))
        assert rig.agents is not None
        assert rig.settings is not None
        nodes = {"waits": node("paid", "WAIT", signal="paid"), "ends": node("paid", "TRANSFORM", output="{{ input }}")}
        for name, paid in nodes.items():
            (rig.agents / f"{name}.yaml").write_bytes(orjson.dumps({"name": name.title(), **chain(paid)}))
        database = stack.enter_context(contextlib.closing(open_database(rig.settings.database)))
        yield Place(rig=rig, database=database)


def _delays(place: Place, count: int) -> list[float]:
    """Give so many runs their signal, one after another, and return the milliseconds of each."""
    run_ids = place.fill(count)
    with contextlib.closing(place.client()) as client:
        return [_delay(place, client, run_id) for run_id in run_ids]


def _delay(place: Place, client: http.client.HTTPConnection, run_id: str) -> float:
    with contextlib.closing(place.client()) as viewer:
        viewer.request("GET", f"/v1/runs/{run_id}/events")
        stream = viewer.getresponse()
        _until_paid(stream, "waiting")
        began_s = time.perf_counter()
        request(client, f"/v1/runs/{run_id}/signals/paid", orjson.dumps({"cents": 4900}))
        _until_paid(stream, "done")
        return (time.perf_counter() - began_s) * 1000


def _until_paid(stream: http.client.HTTPResponse, status: str) -> None:
    """Return when the stream has said that the WAIT has this status."""
    while line := stream.readline():
        if line.startswith(b"data: "):
            event = orjson.loads(line[6:])
            if event.get("node_id") == "paid" and event.get("status") == status:
                return
    raise NotReady(f"the stream ended, and the WAIT is not {status}")


if __name__ == "__main__":
    run(measure, __doc__)
