"""What is done to a running `up`, each fault with the name it is printed under. All of it mends itself or is mended."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import redis

from bus.keys import Keys
from tests.journeys.up import Up


class Faults:
    """Breaks things at random; the same seed breaks the same things in the same order."""

    def __init__(self, up: Up, rnd: random.Random, *, redis_url: str, deployment: str, queue: str) -> None:
        self._up = up
        self._rnd = rnd
        self._redis_url = redis_url
        self._prefix = Keys(deployment).prefix
        self._queue = queue
        self._all: dict[str, Callable[[], None]] = {
            "a worker is killed": lambda: self._signal("celery", signal.SIGKILL),
            "all workers are killed": self._kill_workers,
            "a worker is told to end": lambda: self._signal("celery", signal.SIGTERM),
            "a worker is frozen for 4 s": lambda: self._freeze("celery", 4),
            "the web process is killed": lambda: self._signal("gunicorn", signal.SIGKILL),
            "Redis is killed": lambda: self._signal("redis-server", signal.SIGKILL),
            "Redis is frozen for 6 s": lambda: self._freeze("redis-server", 6),
            "Redis is emptied": self._flush,
            "Redis drops its clients": self._drop_clients,
            "garbage is put into the queue": self._garbage,
            "the database is locked for 5 s": self._lock,
        }

    def one(self) -> str:
        """Do one thing, and return what it was."""
        name = self._rnd.choice(list(self._all))
        self._all[name]()
        return name

    def _processes(self, kind: str) -> list[psutil.Process]:
        return [child for child in self._up.children(kind) if child.is_running()]

    def _signal(self, kind: str, number: signal.Signals) -> None:
        found = self._processes(kind)
        if found:
            os.kill(self._rnd.choice(found).pid, number)

    def _kill_workers(self) -> None:
        for child in self._processes("celery"):
            os.kill(child.pid, signal.SIGKILL)

    def _freeze(self, kind: str, seconds: float) -> None:
        found = self._processes(kind)
        if not found:
            return
        pid = self._rnd.choice(found).pid
        os.kill(pid, signal.SIGSTOP)
        time.sleep(seconds)
        if psutil.pid_exists(pid):  # its supervisor may have ended it
            os.kill(pid, signal.SIGCONT)

    def _client(self) -> redis.Redis:
        return redis.Redis.from_url(self._redis_url, socket_timeout=2, retry=None)

    def _flush(self) -> None:
        _quietly(lambda: self._client().flushall())

    def _drop_clients(self) -> None:
        _quietly(lambda: self._client().execute_command("CLIENT", "KILL", "TYPE", "pubsub"))
        _quietly(lambda: self._client().execute_command("CLIENT", "KILL", "TYPE", "normal"))

    def _garbage(self) -> None:
        for item in (b"garbage", b"[]", b'{"body": 7}', os.urandom(64)):
            _quietly(lambda item=item: self._client().rpush(f"{self._prefix}{self._queue}", item))  # type: ignore[misc]

    def _lock(self) -> None:
        path = self._up.state / "callboard.db"
        if not Path(path).exists():
            return
        with sqlite3.connect(path, timeout=10, isolation_level=None) as connection:
            connection.execute("BEGIN IMMEDIATE")
            time.sleep(5)
            connection.execute("ROLLBACK")


def _quietly(act: Callable[[], object]) -> None:
    """Do it if Redis can be reached just now."""
    try:
        act()
    except (redis.RedisError, OSError):
        return
