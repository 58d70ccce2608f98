"""Keep child processes running: a dead child is restarted within a second, and none outlives this process."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from cli.supervisor.child import guarded
from cli.supervisor.liveness_pipe import START_S, ChildPipe
from config.clock import stamp
from config.errors import CallboardError, Topic

STEADY_S = 5.0
"""A child that ran longer is restarted at once: its end is unrelated to its start."""
BACK_OFF_S = (0.0, 0.1, 0.3, 0.9, 2.0, 5.0)
"""Pauses before the first, second, ... restart after quick deaths."""
READY_BACK_OFF_S = 0.3
"""The longest pause for a child that was ready: its death had an external cause, which may be gone."""
GRACE_S = 25.0
"""Seconds children get after SIGTERM: a worker ends its current steps (20 s) and releases its runs."""
SLOW_STOP_S = 1.5
TAIL_LINES = 15
MAX_LINE_BYTES = 64 * 1024
"""A longer line of a child is passed on in pieces: a progress bar may never end its line."""
MAX_QUICK_DEATHS = 3
"""Quick deaths of a child that never became ready, after which the supervisor gives up."""

Sink = Callable[[str, str], None]
"""Takes (name of the child, one line it wrote)."""

CHILD_HOPELESS = CallboardError.row(
    "child_hopeless",
    "`up`: a process ends as soon as it is started.",
    topic=Topic.MACHINE,
    over_http=False,
    remedy="Its last output is shown, and says why.",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ChildSpec:
    """How to run a child."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=lambda: os.environ)
    """Its whole environment; default: this process's."""
    pass_fds: tuple[int, ...] = ()
    parent_died: signal.Signals = signal.SIGKILL
    """The signal it gets when this process dies; SIGKILL, because a draining worker may hang."""
    before: Callable[[Child], None] = lambda child: None
    """Called before each start."""
    essential: bool = True
    """Whether the other children are useless without it."""
    silence_s: float | None = None
    """Seconds without a liveness byte after which it is restarted; None: it sends none (bus/liveness.py)."""
    umask: int = -1
    """Its umask; -1: as this process."""
    start_s: float = START_S
    """Seconds until its first liveness byte."""


class Child:
    """One child and the thread that restarts it.

    The thread outlives the child, since the kernel ties the parent-death signal to the thread that forked.
    """

    def __init__(self, spec: ChildSpec, sink: Sink) -> None:
        self.spec = spec
        self.process: subprocess.Popen[bytes] | None = None
        self.tail: deque[str] = deque(maxlen=TAIL_LINES)
        self.quick_deaths = 0
        self.ready = threading.Event()
        self._is_alive = self._is_wedged = False
        """Of the current process."""
        self._sink = sink
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._keep_running, name=f"keep-{spec.name}", daemon=True)

    def start(self) -> None:
        """Start the child, and restart it whenever it ends."""
        self._thread.start()

    def terminate(self) -> None:
        """Send SIGTERM to the child, which ends its own children; do not restart it."""
        self._stopping.set()
        if self.process is not None:
            self.process.terminate()  # nothing happens where it has ended

    def kill(self) -> None:
        """Send SIGKILL to the child and all of its children; do not restart it."""
        self._stopping.set()
        if self.process is not None and self.process.poll() is None:
            _kill_group(self.process.pid)

    def wait(self, timeout_s: float) -> bool:
        """Wait for the child's end, and return whether it came in time."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def raise_if_hopeless(self) -> None:
        """Return unless the child cannot be kept running.

        Raises:
            CHILD_HOPELESS: it is essential, was never ready, and had ``MAX_QUICK_DEATHS`` quick deaths.
        """
        if self.spec.essential and self.quick_deaths >= MAX_QUICK_DEATHS and not self.ready.is_set():
            output = "\n".join(f"  | {line}" for line in self.tail)
            raise CHILD_HOPELESS(f"{self.spec.name} ends as soon as it is started; its last output:\n{output}")

    def _keep_running(self) -> None:
        while not self._stopping.is_set():
            began = time.monotonic()
            status = self._run_once()
            if self._stopping.is_set():
                return
            if time.monotonic() - began > STEADY_S:
                self.quick_deaths = 0
                self.ready.set()
            else:
                self.quick_deaths += 1
            if status is not None and not self._is_wedged:
                self._warn(f"{self.spec.name} ended ({_status_name(status)}); starting it again")
            self._stopping.wait(pause_s(self.quick_deaths, was_ready=self._is_alive))

    def _run_once(self) -> int | None:
        """Run the child once, kill the rest of its process group, which may hold its port, and return its status.

        None: it could not be started.
        """
        self._is_alive = self._is_wedged = False
        try:
            self.spec.before(self)
            process, pipe = self._spawn()
        except OSError as error:
            self._warn(f"{self.spec.name} could not be started: {error}")
            return None
        if self._stopping.is_set():
            self.kill()
        reader = threading.Thread(target=self._read, args=(process,), daemon=True)
        reader.start()
        if pipe is not None:
            threading.Thread(target=self._listen, args=(process, pipe), daemon=True).start()
        status = process.wait()
        _kill_group(process.pid)
        reader.join(1.0)
        return status

    def _spawn(self) -> tuple[subprocess.Popen[bytes], ChildPipe | None]:
        pipe = ChildPipe() if self.spec.silence_s is not None else None
        try:
            process = subprocess.Popen(
                guarded(self.spec.argv, self.spec.parent_died),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**self.spec.env, **(pipe.environment if pipe else {})},
                pass_fds=(*self.spec.pass_fds, *((pipe.write_end,) if pipe else ())),
                start_new_session=True,
                umask=self.spec.umask,
            )
        except OSError:
            if pipe is not None:
                pipe.close()
            raise
        finally:
            if pipe is not None:
                pipe.close_write_end()
        self.process = process
        return process, pipe

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        with process.stdout, contextlib.suppress(ValueError):
            for line in iter(partial(process.stdout.readline, MAX_LINE_BYTES), b""):
                text = line.decode("utf-8", "replace").rstrip("\r\n")
                self.tail.append(text)
                self._emit(text)

    def _listen(self, process: subprocess.Popen[bytes], pipe: ChildPipe) -> None:
        """Kill the process group if the liveness bytes stop; ``_keep_running`` restarts the child."""
        assert self.spec.silence_s is not None
        if not pipe.listen(self.spec.silence_s, self.spec.start_s, self._on_first_byte) or process.poll() is not None:
            return
        name, silence_s = self.spec.name, self.spec.silence_s if self._is_alive else self.spec.start_s
        self._warn(f"{name} gave no sign of life for {silence_s:g} s; it is ended and started again")
        self._is_wedged = True
        _kill_group(process.pid)

    def _warn(self, sentence: str) -> None:
        """Pass a line about the child to the sink, in the form of the child's own lines."""
        self._emit(f"{stamp()} WARNING {sentence}")

    def _emit(self, line: str) -> None:
        """Pass a line to the sink; its errors are ignored, since they would end the thread that watches the child."""
        with contextlib.suppress(Exception):
            self._sink(self.spec.name, line)

    def _on_first_byte(self) -> None:
        self._is_alive = True
        self.ready.set()


class Supervisor:
    """Several children that are ended together."""

    def __init__(self, sink: Sink) -> None:
        self.children: list[Child] = []
        self.stop_asked = threading.Event()
        self.hurry = threading.Event()
        """Set by a second signal: do not wait for the grace period."""
        self._sink = sink

    def keep(self, spec: ChildSpec) -> Child:
        child = Child(spec, self._sink)
        self.children.append(child)
        child.start()
        return child

    def wait(self, look: Callable[[], None] = lambda: None) -> None:
        """Return when a signal asked this process to stop; call ``look`` each second until then.

        Raises:
            CHILD_HOPELESS: a child cannot be kept running.
        """
        while not self.stop_asked.wait(1.0):
            look()
            for child in self.children:
                child.raise_if_hopeless()

    def stop(self, grace_s: float = GRACE_S) -> None:
        """End all children: first the clients (drained, then killed), then the Redis that they use."""
        self._end([child for child in self.children if child.spec.name != "redis"], grace_s)
        self._end([child for child in self.children if child.spec.name == "redis"], grace_s)
        self.children.clear()

    def _end(self, children: list[Child], grace_s: float) -> None:
        for child in children:
            child.terminate()
        until = time.monotonic() + grace_s
        while not self.hurry.is_set() and time.monotonic() < until:
            if all([child.wait(0.05) for child in children]):
                return
        for child in children:
            child.kill()
        for child in children:
            child.wait(5.0)

    def ask_to_stop(self, *_signal: object) -> None:
        """Set ``stop_asked``, and the second time ``hurry``."""
        if self.stop_asked.is_set():
            self.hurry.set()
        self.stop_asked.set()


@contextlib.contextmanager
def supervising(sink: Sink, say: Callable[[str], None]) -> Iterator[Supervisor]:
    """Yield a supervisor that SIGTERM and SIGINT stop; afterwards end its children, and say so if that takes long.

    Call it on the main thread.
    """
    supervisor = Supervisor(sink)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, supervisor.ask_to_stop)
    try:
        yield supervisor
    finally:
        note = f"stopping: runs get up to {GRACE_S:g} s to end; Ctrl-C again ends them now"
        with after(SLOW_STOP_S, say, note):
            supervisor.stop()


@contextlib.contextmanager
def after(delay_s: float, say: Callable[[str], None], sentence: str) -> Iterator[None]:
    """Say the sentence if what is done in this context takes longer than ``delay_s``."""
    timer = threading.Timer(delay_s, say, (sentence,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def pause_s(quick_deaths: int, *, was_ready: bool) -> float:
    """Return the pause before the next start, after so many quick deaths."""
    if not quick_deaths:
        return 0.0
    pause_s = BACK_OFF_S[min(quick_deaths, len(BACK_OFF_S)) - 1]
    return min(pause_s, READY_BACK_OFF_S) if was_ready else pause_s


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _status_name(status: int) -> str:
    with contextlib.suppress(ValueError):
        if status < 0:
            return signal.Signals(-status).name
    return f"status {status}"
