"""Keeps child processes running: a dead one is started again within a second, and none outlives us."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from config.errors import CallboardError
from web.terminal.child import guarded
from web.terminal.pulse_pipe import START_S, PulsePipe

STEADY_S = 5.0
"""A child that lived longer died of something new: it is started again at once."""
BACK_OFF_S = (0.0, 0.1, 0.3, 0.9, 2.0, 5.0)
"""Pauses before the first, second, ... start after deaths in quick succession."""
READY_BACK_OFF_S = 0.3
"""The longest of them after a life in which it was ready: what killed it came from outside, and may be gone."""
GRACE_S = 25.0
"""Seconds children get after SIGTERM: a worker ends its current steps (20 s) and lets its runs go."""
TAIL_LINES = 15
HOPELESS = 3
"""Quick deaths of a child that never became ready, after which starting it again is no use."""

Sink = Callable[[str, str], None]
"""Takes (name of the child, one line it wrote)."""


class ChildHopeless(CallboardError):
    """A child ends at once, again and again."""

    code = "child_hopeless"


@dataclass(frozen=True, kw_only=True, slots=True)
class ChildSpec:
    """How a child is run."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    """Added to this process's environment."""
    whole_env: Mapping[str, str] | None = None
    """Instead of this process's environment."""
    pass_fds: tuple[int, ...] = ()
    parent_died: signal.Signals = signal.SIGKILL
    """What it gets when this process dies; SIGKILL, because a worker that drains may hang."""
    before: Callable[[], None] = lambda: None
    """Called before each start."""
    essential: bool = True
    """Whether the others are of no use without it."""
    silence_s: float | None = None
    """Seconds without a sign of life after which it is ended and started again; None: it gives none (bus/pulse.py)."""
    umask: int = -1
    """The permissions that files it makes do not have; -1: as this process."""
    start_s: float = START_S
    """Seconds until the first one."""


class Child:
    """One child and the thread that starts it again. The thread lives as long as the child may:
    the kernel ties the parent-death signal to the thread that forked."""

    def __init__(self, spec: ChildSpec, sink: Sink) -> None:
        self.spec = spec
        self.process: subprocess.Popen[bytes] | None = None
        self.tail: deque[str] = deque(maxlen=TAIL_LINES)
        self.quick_deaths = 0
        self.ready = threading.Event()
        self._has_pulsed = self._is_wedged = False
        """In this life."""
        self._sink = sink
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=f"keep-{spec.name}", daemon=True)

    def start(self) -> None:
        """Start it now and again whenever it dies."""
        self._thread.start()

    def stop(self) -> None:
        """Ask it to end (SIGTERM), and do not start it again."""
        self._stopping.set()
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it and everything it started."""
        self._stopping.set()
        self._signal(signal.SIGKILL)

    def wait(self, timeout_s: float) -> bool:
        """Return whether it has ended, waiting at most so long."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def wait_for_pid(self, other_than: int | None = None, timeout_s: float = 10.0) -> int:
        """Return its pid as soon as it runs (again)."""
        with self._changed:
            self._changed.wait_for(lambda: self.process is not None and self.process.pid != other_than, timeout_s)
            assert self.process is not None
            return self.process.pid

    def raise_if_hopeless(self) -> None:
        """Return while there is hope.

        Raises:
            ChildHopeless: it is essential, never became ready and ended several times at once.
        """
        if self.spec.essential and self.quick_deaths >= HOPELESS and not self.ready.is_set():
            said = "\n".join(f"  | {line}" for line in self.tail)
            raise ChildHopeless(f"{self.spec.name} ends as soon as it is started; the last it said:\n{said}")

    def _keep(self) -> None:
        while not self._stopping.is_set():
            began = time.monotonic()
            status = self._live()
            if self._stopping.is_set():
                return
            if time.monotonic() - began > STEADY_S:
                self.quick_deaths = 0
                self.ready.set()
            else:
                self.quick_deaths += 1
            if not self._is_wedged:
                self._say(f"WARNING {self.spec.name} ended ({_named(status)}); starting it again")
            self._stopping.wait(pause_s(self.quick_deaths, was_ready=self._has_pulsed))

    def _live(self) -> int:
        """Run it once and return how it ended; its group is gone then, and with it what held its port."""
        self._has_pulsed = self._is_wedged = False
        try:
            self.spec.before()
            process, pulse = self._spawn()
        except OSError as wrong:
            self._say(f"WARNING {self.spec.name} could not be started: {wrong}")
            return -1
        if self._stopping.is_set():
            self._signal(signal.SIGKILL)
        reader = threading.Thread(target=self._read, args=(process,), daemon=True)
        reader.start()
        if pulse is not None:
            threading.Thread(target=self._listen, args=(process, pulse), daemon=True).start()
        status = process.wait()
        _signal_group(process.pid, signal.SIGKILL)
        if pulse is not None:
            pulse.end()
        reader.join(1.0)
        return status

    def _base_env(self) -> Mapping[str, str]:
        return os.environ if self.spec.whole_env is None else self.spec.whole_env

    def _spawn(self) -> tuple[subprocess.Popen[bytes], PulsePipe | None]:
        pulse = PulsePipe() if self.spec.silence_s is not None else None
        try:
            process = subprocess.Popen(
                guarded(self.spec.argv, self.spec.parent_died),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**self._base_env(), **self.spec.env, **(pulse.environment if pulse else {})},
                pass_fds=(*self.spec.pass_fds, *((pulse.writing,) if pulse else ())),
                start_new_session=True,
                umask=self.spec.umask,
            )
        except OSError:
            if pulse is not None:
                pulse.close()
            raise
        finally:
            if pulse is not None:
                pulse.handed_over()
        with self._changed:
            self.process = process
            self._changed.notify_all()
        return process, pulse

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        with process.stdout, contextlib.suppress(ValueError):
            for line in process.stdout:
                text = line.decode("utf-8", "replace").rstrip("\r\n")
                self.tail.append(text)
                self._say(text)

    def _listen(self, process: subprocess.Popen[bytes], pulse: PulsePipe) -> None:
        """End the process when it gives no sign of life; whoever waits for it starts it again."""
        assert self.spec.silence_s is not None
        if not pulse.listen(self.spec.silence_s, self.spec.start_s, self._pulsed) or process.poll() is not None:
            return
        name, silence_s = self.spec.name, self.spec.silence_s if self._has_pulsed else self.spec.start_s
        self._say(f"WARNING {name} gave no sign of life for {silence_s:g} s; it is ended and started again")
        self._is_wedged = True
        _signal_group(process.pid, signal.SIGKILL)

    def _say(self, line: str) -> None:
        """Hand the sink a line. Whatever it raises ends here: a thread it ended would keep, read or watch no child."""
        with contextlib.suppress(Exception):
            self._sink(self.spec.name, line)

    def _pulsed(self) -> None:
        self._has_pulsed = True
        self.ready.set()

    def _signal(self, number: signal.Signals) -> None:
        process = self.process
        if process is None or process.poll() is not None:
            return
        if number == signal.SIGKILL:
            _signal_group(process.pid, number)
        else:
            process.send_signal(number)  # to the child alone: it tells its own children


class Supervisor:
    """Several children, ended together."""

    def __init__(self, sink: Sink) -> None:
        self.children: dict[str, Child] = {}
        self.stop_asked = threading.Event()
        self.hurry = threading.Event()
        """Set by a second signal: do not wait for the grace."""
        self._sink = sink

    def keep(self, spec: ChildSpec) -> Child:
        """Start a child and keep it running."""
        child = Child(spec, self._sink)
        self.children[spec.name] = child
        child.start()
        return child

    def listen_to_signals(self) -> None:
        """SIGTERM and SIGINT ask to stop, the second one at once. Call it on the main thread."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._asked)

    def wait(self) -> None:
        """Return when somebody asked to stop.

        Raises:
            ChildHopeless: a child cannot be kept running.
        """
        while not self.stop_asked.wait(1.0):
            for child in self.children.values():
                child.raise_if_hopeless()

    def stop(self, grace_s: float = GRACE_S, last: tuple[str, ...] = ("redis",)) -> None:
        """End all children: first those that use others (drained, then killed), then ``last``."""
        users = [child for name, child in self.children.items() if name not in last]
        servers = [child for name, child in self.children.items() if name in last]
        self._end(users, grace_s)
        self._end(servers, grace_s)
        self.children.clear()

    def _end(self, children: list[Child], grace_s: float) -> None:
        for child in children:
            child.stop()
        until = time.monotonic() + grace_s
        while not self.hurry.is_set() and time.monotonic() < until:
            if all([child.wait(0.05) for child in children]):
                return
        for child in children:
            child.kill()
        for child in children:
            child.wait(5.0)

    def _asked(self, number: int, _frame: object) -> None:
        if self.stop_asked.is_set():
            self.hurry.set()
        self.stop_asked.set()


def pause_s(quick_deaths: int, *, was_ready: bool) -> float:
    """Return how long to wait before the next start, after so many deaths in quick succession."""
    if not quick_deaths:
        return 0.0
    pause_s = BACK_OFF_S[min(quick_deaths, len(BACK_OFF_S)) - 1]
    return min(pause_s, READY_BACK_OFF_S) if was_ready else pause_s


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _named(status: int) -> str:
    """Return an exit status as people call it."""
    with contextlib.suppress(ValueError):
        if status < 0:
            return signal.Signals(-status).name
    return f"status {status}"
