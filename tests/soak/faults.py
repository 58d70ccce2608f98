"""What is done to a running `up`, each fault with the name it is printed under. All of it mends itself or is mended."""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import redis

from bus.keys import Keys
from config.clock import epoch_ms
from tests.backends import PostgresCluster
from tests.journeys.up import Up
from tests.slow_disk import SlowDisk
from tests.soak.healthy import Struck
from tests.soak.slowness import LATE_S, busy_machine, health_s, slow_peers

KILL = "all workers are killed"
NAMES = (
    "a worker is killed",
    KILL,
    "a worker is asked to end",
    "a worker is frozen for 4 s",
    "the web process is killed",
    "Redis is killed",
    "Redis is frozen for 6 s",
    "Redis is emptied",
    "Redis drops its clients",
    "garbage is put into the queue",
    "the database is away for 5 s",
    "all workers are killed twice",
    "the disk is slow for 8 s",
    "peers hold back for 6 s",
    "the machine is busy for 6 s",
)
FIRST_FEW = 3
"""Among so many faults at the start one kills all workers."""
PAUSE_S = (2.0, 8.0)
"""Least and most between the end of one fault and the next."""
PATIENCE_S = 20.0
"""How long a fault waits for what it breaks: an earlier one may have ended it, and its supervisor starts it again."""
AWAY_S = 5.0
SLOW_DISK_S, SLOW_DISK_MS = 8.0, 60
"""How long the disk is slow, and how much longer each fsync takes then."""
SLOW_PEERS_S = 6.0
BUSY_S = 6.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Blow:
    """One fault of the plan, with everything about it that is random."""

    name: str
    at: float
    """Which of several is hit: their place, from 0 to below 1."""
    pause_s: float
    """How long nothing is broken afterwards."""


def plan(rnd: random.Random) -> Iterator[Blow]:
    """Yield faults without end, each kind once before any comes again; the same for the same seed.

    A kill of all workers is among the first few, so that runs crash in the shortest soak too.
    """
    order = rnd.sample([name for name in NAMES if name != KILL], len(NAMES) - 1)
    order.insert(rnd.randrange(FIRST_FEW), KILL)
    while True:
        for name in order:
            yield Blow(name=name, at=rnd.random(), pause_s=rnd.uniform(*PAUSE_S))
        order = rnd.sample(NAMES, len(NAMES))


class Faults:
    """Breaks what the plan says."""

    def __init__(
        self, up: Up, disk: SlowDisk, *, redis_url: str, deployment: str, queue: str, postgres: PostgresCluster | None
    ) -> None:
        self.struck: list[Struck] = []
        """Workers that lose their runs to a fault; no other may."""
        self.found: list[str] = []
        """What did not hold while a fault lasted."""
        self._up = up
        self._disk = disk
        self._redis_url = redis_url
        self._queue = f"{Keys(deployment).prefix}{queue}"
        self._postgres = postgres
        acts: tuple[Callable[[float], bool], ...] = (
            lambda at: self._end("celery", at, psutil.Process.kill),
            lambda at: self._kill_workers(),
            lambda at: self._end("celery", at, psutil.Process.terminate),
            lambda at: self._freeze("celery", at, 4),
            lambda at: self._end("gunicorn", at, psutil.Process.kill),
            lambda at: self._end("redis-server", at, psutil.Process.kill),
            lambda at: self._freeze("redis-server", at, 6),
            lambda at: self._say(["FLUSHALL"]),
            lambda at: self._say(["CLIENT", "KILL", "TYPE", "pubsub"], ["CLIENT", "KILL", "TYPE", "normal"]),
            lambda at: self._say(["RPUSH", self._queue, *_garbage(at)]),
            lambda at: self._take_database_away(),
            lambda at: self._kill_workers_twice(),
            lambda at: self._slow_the_disk(),
            lambda at: self._hold_back(),
            lambda at: self._take_processors(),
        )
        self._acts = dict(zip(NAMES, acts, strict=True))

    def do(self, blow: Blow) -> bool:
        """Break it, and return whether there was anything to break."""
        return self._acts[blow.name](blow.at)

    # --- processes

    def _processes(self, kind: str) -> list[psutil.Process]:
        """Return those of a kind, in the order they were started, once there is one."""
        until_s = time.monotonic() + PATIENCE_S
        while not (processes := self._up.children(kind)) and time.monotonic() < until_s:
            time.sleep(0.1)  # other processes; only the list tells
        return sorted(processes, key=lambda process: process.pid)

    def _one(self, kind: str, at: float) -> psutil.Process | None:
        processes = self._processes(kind)
        return processes[int(at * len(processes))] if processes else None

    def _strike(self, *processes: psutil.Process) -> None:
        """Note that these may lose their runs; processes that own none are noted in vain."""
        self.struck += [Struck(pid=process.pid, at_ms=epoch_ms()) for process in processes]

    def _end(self, kind: str, at: float, how: Callable[[psutil.Process], None]) -> bool:
        process = self._one(kind, at)
        if process is None:
            return False
        self._strike(process)
        return _did(lambda: how(process))

    def _kill_workers(self) -> bool:
        processes = self._processes("celery")
        self._strike(*processes)
        return any([_did(process.kill) for process in processes])

    def _kill_workers_twice(self) -> bool:
        """Kill all workers, and those in their place once they had time for a claim."""
        is_first = self._kill_workers()
        time.sleep(PAUSE_S[1])
        return self._kill_workers() and is_first

    def _freeze(self, kind: str, at: float, seconds: float) -> bool:
        process = self._one(kind, at)
        if process is None or not _did(process.suspend):
            return False
        time.sleep(seconds)  # its length is the fault
        _did(process.resume)  # its supervisor may have ended it
        self._strike(process)
        return True

    # --- slowness, which strikes no one

    def _slow_the_disk(self) -> bool:
        self._disk.delay(SLOW_DISK_MS)
        time.sleep(SLOW_DISK_S)
        self._disk.delay(0)
        return True

    def _hold_back(self) -> bool:
        with slow_peers(self._up.address):
            until_s = time.monotonic() + SLOW_PEERS_S
            while time.monotonic() < until_s:
                if (took_s := health_s(self._up.address)) > LATE_S:
                    self.found.append(f"F38 /health took {took_s:.1f} s beside peers that hold back")
                time.sleep(0.2)
        return True

    def _take_processors(self) -> bool:
        with busy_machine():
            time.sleep(BUSY_S)
        return True

    # --- Redis and the database

    def _say(self, *commands: list[str | bytes]) -> bool:
        """Say something to Redis once it can be reached, and return whether it was received."""
        until_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < until_s:
            with (
                suppress(redis.RedisError, OSError),
                redis.Redis.from_url(self._redis_url, socket_timeout=2, retry=None) as client,
            ):
                for command in commands:
                    client.execute_command(*command)
                return True
            time.sleep(0.2)  # it is being started again
        return False

    def _take_database_away(self) -> bool:
        """SQLite is locked, Postgres is restarted."""
        if self._postgres is None:
            is_done = _lock(self._up.state / "callboard.db")
        else:
            self._postgres.stop()
            time.sleep(AWAY_S)
            self._postgres.start()
            is_done = True
        self._strike(*self._processes("celery"))
        return is_done


def _lock(path: Path) -> bool:
    with closing(sqlite3.connect(path, timeout=PATIENCE_S, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:  # many write, and no turn is certain
            return False
        time.sleep(AWAY_S)
        connection.execute("ROLLBACK")
    return True


def _garbage(at: float) -> list[bytes]:
    return [b"garbage", b"[]", b'{"body": 7}', random.Random(at).randbytes(64)]


def _did(act: Callable[[], None]) -> bool:
    """Do it, and return whether the process was still there."""
    try:
        act()
    except psutil.NoSuchProcess:
        return False
    return True
