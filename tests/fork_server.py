"""Starts workers and web processes by a fork of a process that has imported what they need: a second of CPU less each.

What it starts is a real process with its own pid, environment, files and signals. Where the start itself is tested, or
where only an executed process would see the difference (`LD_PRELOAD`, `PYTHON...`), the tests execute it.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from typing import IO

from config.folders import ROOT

CELERY = """
celery.bin.celery celery.bin.worker celery.apps.worker celery.worker.consumer celery.concurrency.thread
celery.concurrency.prefork kombu.transport.redis bus.celery_app handlers.run_agent handlers.worker.process
""".split()
KINDS = {
    "worker": CELERY,
    "prefork": (*CELERY, "agents.models.lite:litellm_module"),  # its parent imports LiteLLM before it forks
    "web": ("gunicorn.app.wsgiapp", "web.app", "web.server.worker"),
}
"""Kind of process -> the modules it needs, or what is called."""
_AT_START = re.compile(r"^(PYTHON|LD_|MALLOC_|GLIBC_|LC_|LANG$|TZ$)")
"""Variables that a process reads when it is executed."""


class Forked:
    """A process of a fork server, with what the tests use of a ``subprocess.Popen``."""

    def __init__(self, status: int) -> None:
        self._status = os.fdopen(status, "rb", buffering=0)
        self._lock = threading.Lock()
        self.pid = int(self._status.readline() or b"0")
        if not self.pid:
            raise AssertionError("the fork server ended")
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return its exit status, or None while it lives."""
        return self._wait(0)

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit status once it has ended.

        Raises:
            TimeoutExpired: it lives for longer than that.
        """
        status = self._wait(timeout)
        if status is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
        return status

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)

    def _wait(self, timeout_s: float | None) -> int | None:
        with self._lock:
            if self.returncode is None and select.select([self._status], [], [], timeout_s)[0]:
                line = self._status.readline()
                self.returncode = int(line) if line else -signal.SIGTERM  # without a server nothing of it lives
                self._status.close()
        return self.returncode


class ForkServer:
    """One parent of forked processes."""

    def __init__(self, modules: Sequence[str]) -> None:
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("CALLBOARD_")},
            "CALLBOARD_NO_CONFIG": "1",
            "PYTHONPATH": str(ROOT),
        }
        command = [sys.executable, "-P", "-m", "tests.fork_parent", str(theirs.fileno()), *modules]
        with theirs:
            self._parent = subprocess.Popen(
                command, cwd=ROOT, env=self.environment, pass_fds=(theirs.fileno(),), start_new_session=True
            )

    def suits(self, environment: Mapping[str, str]) -> bool:
        """Return whether a forked process reads this environment as an executed one would."""
        names = {name for name in {*environment, *self.environment} if _AT_START.search(name)}
        return all(environment.get(name) == self.environment.get(name) for name in names)

    def start(
        self, module: str, *arguments: str, environment: Mapping[str, str], output: IO[bytes], own_session: bool
    ) -> Forked:
        """Fork a process that runs a module as ``python -m`` does."""
        request = {
            "module": module,
            "arguments": arguments,
            "folder": str(ROOT),
            "environment": dict(environment),
            "own_session": own_session,
        }
        reading, writing = os.pipe()
        try:
            with self._lock:
                socket.send_fds(self._socket, [json.dumps(request).encode()], [output.fileno(), writing])
        finally:
            os.close(writing)
        return Forked(reading)

    def close(self) -> None:
        """End the parent, and with it what still lives of its processes."""
        self._socket.close()
        self._parent.wait(10)


@cache
def fork_server(kind: str) -> ForkServer | None:
    """Return this process's server for a kind of process; None where there can be none."""
    if sys.platform != "linux":
        return None
    server = ForkServer(KINDS[kind])
    atexit.register(server.close)
    return server


Process = subprocess.Popen[bytes] | Forked
