"""A warm parent process that forks a child for each attempt at a run.

The parent has imported everything, and has no thread, event loop or connection, which a fork would break. A child does
its work, hands back the result and ends, or is killed at a failpoint.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import pickle
import resource
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from config.logs import NOISY

PR_SET_PDEATHSIG = 1
ASKED_TO_END = (signal.SIGINT, signal.SIGTERM)
TAIL_CHARS = 4000
LAST_WORDS_S = 5.0
"""How long a hanging child has to print its stacks."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChildOutcome:
    """How a child ended."""

    end: Literal["returned", "killed", "raised", "hung"]
    result: Any = None
    """The return value of its work."""
    output: str = ""
    """The end of its output; for one that raised or hung, the traceback."""
    status: int = 0
    """Exit status; a negative signal number if a signal ended it."""


class ForkRunner:
    """Forks children, one at a time."""

    def __init__(self, log: Path) -> None:
        self._log = log

    def run(self, work: Callable[[], Any], time_s: float) -> ChildOutcome:
        """Fork a child that does ``work`` within ``time_s`` seconds, and return its outcome."""
        self._log.unlink(missing_ok=True)
        reading, writing = os.pipe()
        parent = os.getpid()
        unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, ASKED_TO_END)  # Python loses one during a fork
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            _be_a_child(work, parent, writing, self._log)
        os.close(writing)
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
            return self._wait(pid, reading, time_s)
        except BaseException:  # Ctrl-C, SIGTERM
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise
        finally:
            os.close(reading)

    def _wait(self, pid: int, reading: int, time_s: float) -> ChildOutcome:
        handed, is_over = _read(pid, reading, time.monotonic() + time_s)
        if not is_over:
            os.kill(pid, signal.SIGABRT)  # faulthandler prints every thread's stack
            if not _read(pid, reading, time.monotonic() + LAST_WORDS_S)[1]:
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return ChildOutcome(end="hung", output=self._output())
        _, status = os.waitpid(pid, 0)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            return ChildOutcome(end="killed", output=self._output())
        if status != 0 or not handed:  # os._exit(0) in a tool hands nothing back
            return ChildOutcome(end="raised", output=self._output(), status=os.waitstatus_to_exitcode(status))
        return ChildOutcome(end="returned", result=pickle.loads(handed), output=self._output())  # our own child's

    def _output(self) -> str:
        return self._log.read_text(errors="replace")[-TAIL_CHARS:] if self._log.exists() else ""


def other_threads() -> list[str]:
    """Return this process's threads besides the main one; a tool that starts one at import makes forks unsafe."""
    return [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]


def _read(pid: int, reading: int, until_s: float) -> tuple[bytes, bool]:
    """Return what the child handed back, and whether it has ended."""
    handed, is_over = bytearray(), False
    while (left_s := until_s - time.monotonic()) > 0:
        if not select.select([reading], [], [], 0 if is_over else min(left_s, 0.5))[0]:
            if is_over:
                return bytes(handed), True
            is_over = _has_ended(pid)  # a process that a tool forked may keep the pipe open
            continue  # and read what it wrote since
        piece = os.read(reading, 1 << 20)
        if not piece:
            return bytes(handed), True
        handed += piece
    return bytes(handed), False


def _has_ended(pid: int) -> bool:
    """Return whether the child has ended, without reaping it."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _be_a_child(work: Callable[[], Any], parent: int, writing: int, log: Path) -> None:
    """Do the work and end this process without the parent's exit handlers."""
    status = 1
    try:
        _set_up(parent, log)
        handed = memoryview(pickle.dumps(work()))
        while handed:
            handed = handed[os.write(writing, handed) :]
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def _set_up(parent: int, log: Path) -> None:
    _die_with(parent)
    for asked in ASKED_TO_END:
        signal.signal(asked, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ASKED_TO_END)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, opened in ((0, nothing), (1, file), (2, file)):
        os.dup2(opened, number)
    sys.stdout = sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False, errors="replace")
    faulthandler.enable(file=2, all_threads=True)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, force=True)
    for name in NOISY:
        logging.getLogger(name).setLevel(logging.WARNING)


def _die_with(parent: int) -> None:
    """Make the kernel kill this process when its parent dies (Linux)."""
    if sys.platform != "linux":
        return
    import ctypes

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent died before the call
        os._exit(1)
