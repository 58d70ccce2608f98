"""Processes of the bench: each dies with it, and its memory and CPU time can be read while it lives."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import orjson

from cli.supervisor.child import guarded
from cli.supervisor.serving import child_environment, python
from config.folders import ROOT
from tests.ports import free_port

_TICKS = os.sysconf("SC_CLK_TCK")


class NotReady(RuntimeError):
    """A process of the bench ended or stayed silent; its last lines are in the message."""


class Process:
    """A program in a process group of its own, its output in a file."""

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        log: Path,
        *,
        env: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
        stdin: int | IO[bytes] | None = subprocess.DEVNULL,
    ) -> None:
        self.name = name
        self.log = log
        self.began_s = time.perf_counter()
        with log.open("ab") as sink:
            self._process = subprocess.Popen(
                guarded(argv, signal.SIGKILL),
                cwd=ROOT,
                env=clean_environment(env),
                stdin=stdin,
                stdout=sink,
                stderr=sink,
                pass_fds=tuple(pass_fds),
                start_new_session=True,
            )
        self.pid = self._process.pid

    def stop(self, patience_s: float = 5.0) -> None:
        """End the process and everything it started."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(patience_s)
        with contextlib.suppress(ProcessLookupError):  # what outlived its parent
            os.killpg(self.pid, signal.SIGKILL)

    def interrupt(self) -> None:
        """Ask as Ctrl-C does."""
        self._process.send_signal(signal.SIGINT)

    def wait_for(self, is_there: str, timeout_s: float = 60.0) -> None:
        """Return when the process has written ``is_there``.

        Raises:
            NotReady: it ended first, or never did.
        """
        until = time.monotonic() + timeout_s
        while is_there not in self.log.read_text(errors="replace"):
            self.require_alive()
            if time.monotonic() > until:
                raise NotReady(f"{self.name} did not say '{is_there}':\n{self.tail()}")
            time.sleep(0.02)

    def require_alive(self) -> None:
        """Raise NotReady when the process has ended."""
        if self._process.poll() is not None:
            raise NotReady(f"{self.name} ended with status {self._process.returncode}:\n{self.tail()}")

    def tail(self, lines: int = 25) -> str:
        """Return the last lines it wrote."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """What a set of processes has used so far."""

    cpu_s: Mapping[str, float]
    """User and system seconds, by name."""

    def since(self, earlier: Usage) -> dict[str, float]:
        """Return the seconds used since ``earlier``, by name."""
        return {name: seconds - earlier.cpu_s.get(name, 0.0) for name, seconds in self.cpu_s.items()}


def usage_of(pids: Mapping[str, int]) -> Usage:
    """Return the CPU seconds of each tree of processes, now."""
    return Usage(cpu_s={name: sum(_cpu_s(pid) for pid in tree(root)) for name, root in pids.items()})


def tree(root: int) -> list[int]:
    """Return a process and its descendants."""
    pids, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        pids.append(pid)
        for task in _listed(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                waiting += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
    return pids


def resident_mib(pid: int) -> float:
    """Return the memory of one process that is in RAM, shared pages included."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def wait_for_port(port: int, process: Process, timeout_s: float = 60.0) -> None:
    """Return when a process accepts connections on ``port``.

    Raises:
        NotReady: the process ended, or none does.
    """
    until = time.monotonic() + timeout_s
    while True:
        process.require_alive()
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        if time.monotonic() > until:
            raise NotReady(f"{process.name} does not listen on {port}:\n{process.tail()}")
        time.sleep(0.02)


def wait_for_answer(port: int, path: str, process: Process, timeout_s: float = 60.0) -> None:
    """Return when ``path`` is answered with 200; a bound port alone may not be served yet.

    Raises:
        NotReady: the process ended, or it is not.
    """
    until = time.monotonic() + timeout_s
    while not answers(port, path):
        process.require_alive()
        if time.monotonic() > until:
            raise NotReady(f"{process.name} does not answer {path}:\n{process.tail()}")
        time.sleep(0.02)


def answers(port: int, path: str, timeout_s: float = 10.0) -> bool:
    """Tell whether ``path`` is answered with 200."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def seconds_until_page_and_word(process: Process, port: int, patience_s: float) -> tuple[float, float]:
    """Return how long after its start an `up` answers its page, and has an agent say the first word of an answer."""
    while not answers(port, "/"):
        process.require_alive()
        if time.perf_counter() - process.began_s > patience_s:
            return patience_s, patience_s
        time.sleep(0.01)
    page_s = time.perf_counter() - process.began_s
    _wait_for_a_word(port, patience_s)
    return page_s, time.perf_counter() - process.began_s


def _wait_for_a_word(port: int, patience_s: float) -> None:
    """Ask the assistant, and return with the first piece of its answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=patience_s)
    with contextlib.closing(connection):
        body = orjson.dumps({"agent": "assistant", "input": "Write 20 words"})
        connection.request("POST", "/v1/runs", body, {"Content-Type": "application/json"})
        run_id = orjson.loads(connection.getresponse().read())["run_id"]
        connection.request("GET", f"/v1/runs/{run_id}/events")
        events = connection.getresponse()
        while not events.readline().startswith(b"event: response"):
            pass


@contextlib.contextmanager
def model_server(folder: Path) -> Iterator[str]:
    """Yield the address of a model in a process of its own."""
    port = free_port()
    process = Process("model", [*python("tests.model_server"), "--port", str(port)], folder / "model.log")
    try:
        wait_for_port(port, process)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.stop()


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return this process's environment without Callboard's settings and the providers' keys, and ``extra``.

    Python keeps what it compiled there, as on a user's machine, or one start would cost what only the first one costs.
    """
    left_out = ("CALLBOARD_", "OPENAI_", "ANTHROPIC_", "GEMINI_", "LITELLM_", "PYTHONDONTWRITEBYTECODE")
    variables = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    return child_environment(variables, **(extra or {}))


def _cpu_s(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
