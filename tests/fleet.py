"""Real worker processes for journeys: started as users start Celery, gone with the test."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import IO

from pydantic import SecretStr

from bus.journal.stores import Workers
from cli.supervisor.child import guarded
from config.database.engine import open_database
from config.private_files import open_private, private_folder
from config.settings import Settings
from handlers.worker.warm_up import TURN_FILE
from tests.fork_server import Process, fork_server

ROOT = Path(__file__).resolve().parent.parent
READY_S = 60


def environment(settings: Settings) -> dict[str, str]:
    """Return the environment in which a process reads these settings."""
    ours = {
        f"CALLBOARD_{name.upper()}": str(value)
        for name, value in settings.model_dump(exclude_defaults=True, mode="json").items()
        if value is not None
    }
    secrets = {name: value.get_secret_value() for name, value in settings if isinstance(value, SecretStr)}
    ours |= {f"CALLBOARD_{name.upper()}": value for name, value in secrets.items()}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("CALLBOARD_")}
    return inherited | {"CALLBOARD_NO_CONFIG": "1"} | ours


def bare_environment(**more: str) -> dict[str, str]:
    """Return an environment with what a process of ours needs, ``more``, and nothing of the developer's."""
    return {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "CALLBOARD_NO_CONFIG": "1", **more}


@cache
def keep_turn(state: Path) -> int:
    """Keep the turn to warm up from the workers of a state folder: none imports LiteLLM behind its runs.

    Their runs ask models that ship; one that needs LiteLLM imports it without a turn.
    """
    descriptor = open_private(private_folder(state) / TURN_FILE)
    with suppress(BlockingIOError):  # another process of the tests has it
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return descriptor


class Worker:
    """One `celery worker` process."""

    process: Process

    def __init__(
        self, settings: Settings, *options: str, log: Path, within: tuple[str, ...] = (), executed: bool = False
    ) -> None:
        """``within``: a command that runs the worker, such as one that gives it a machine of its own.

        ``executed``: the start is a part of the test, so no fork server starts it.
        """
        self._settings = settings
        self._executed = executed or bool(within)
        self._within = within
        self._options = options
        self._log = log

    def __enter__(self) -> Worker:
        before = set(self._alive())
        keep_turn(self._settings.state)
        self._said_before = self._log.stat().st_size if self._log.exists() else 0
        with self._log.open("ab") as log:
            self.process = self._start(log)
        self._wait(before)
        return self

    def _start(self, log: IO[bytes]) -> Process:
        quiet = ("--without-gossip", "--without-mingle", "--without-heartbeat")
        arguments = ("--quiet", "-A", "bus.celery_app", "worker", *quiet, *self._options)
        chosen = environment(self._settings) | {"PYTHONPATH": str(ROOT)}
        forks = {"prefork", "processes"}.intersection(self._options)
        server = None if self._executed else fork_server("prefork" if forks else "worker")
        if server is not None and server.suits(chosen):
            return server.start("celery", *arguments, environment=chosen, output=log, own_session=True)
        command = (*self._within, sys.executable, "-m", "celery", *arguments)
        return subprocess.Popen(guarded(command), cwd=ROOT, env=chosen, stdout=log, stderr=log, start_new_session=True)

    def _alive(self) -> list[str]:
        database = open_database(self._settings.database)
        try:
            return [row["worker_id"] for row in Workers(database).alive()]
        finally:
            database.close()

    def _wait(self, before: set[str]) -> None:
        until = time.monotonic() + READY_S
        while not (self._listens() and set(self._alive()) - before):
            if self.process.poll() is not None or time.monotonic() > until:
                raise AssertionError(f"the worker did not start:\n{self._log.read_text()[-3000:]}")
            time.sleep(0.05)  # another process; its log and its row are the only signs

    def _listens(self) -> bool:
        """Tell whether Celery is ready: it installs its handler of SIGTERM after the worker's row is written."""
        return b" ready." in self._log.read_bytes()[self._said_before :]

    def kill(self) -> None:
        """End it and everything it started as a power cut would, also what it was stopped by."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(10)

    def stop(self) -> None:
        """Ask it to end, and end it if it does not."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(5)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.stop()
