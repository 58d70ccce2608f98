"""A warm parent process that forks a child for each attempt at a run.

The parent has imported everything, and has no thread, event loop or connection, which a fork would break. A child does
its work, hands back the result in a file and ends, or is killed at a failpoint.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import pickle
import resource
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from cli.supervisor.child import die_with
from config.logs import NOISY

ASKED_TO_END = (signal.SIGINT, signal.SIGTERM)
TAIL_CHARS = 4000
LAST_WORDS_S = 5.0
"""How long a hanging child has to print its stacks."""
POLL_S = 0.002


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
        self._handed = log.with_suffix(".result")

    def run(self, work: Callable[[], Any], time_s: float) -> ChildOutcome:
        """Fork a child that does ``work`` within ``time_s`` seconds, and return its outcome."""
        for file in (self._log, self._handed):
            file.unlink(missing_ok=True)
        parent = os.getpid()
        unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, ASKED_TO_END)  # Python loses one during a fork
        pid = os.fork()
        if pid == 0:
            self._be_a_child(work, parent)
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
            status = _wait(pid, time_s)
            if status is None:
                os.kill(pid, signal.SIGABRT)  # faulthandler prints every thread's stack
                if _wait(pid, LAST_WORDS_S) is None:
                    _kill(pid)
        except BaseException:  # Ctrl-C, SIGTERM
            _kill(pid)
            raise
        return self._outcome(status)

    def _outcome(self, status: int | None) -> ChildOutcome:
        output = self._log.read_text(errors="replace")[-TAIL_CHARS:] if self._log.exists() else ""
        if status is None:
            return ChildOutcome(end="hung", output=output)
        if status == -signal.SIGKILL:
            return ChildOutcome(end="killed", output=output)
        if status != 0 or not self._handed.exists():  # os._exit(0) in a tool hands nothing back
            return ChildOutcome(end="raised", output=output, status=status)
        return ChildOutcome(end="returned", result=pickle.loads(self._handed.read_bytes()), output=output)

    def _be_a_child(self, work: Callable[[], Any], parent: int) -> None:
        """Do the work and end this process without the parent's exit handlers."""
        status = 1
        try:
            die_with(parent, signal.SIGKILL)
            _set_up(self._log)
            self._handed.write_bytes(pickle.dumps(work()))
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)


def other_threads() -> list[str]:
    """Return this process's threads besides the main one; a tool that starts one at import makes forks unsafe."""
    return [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]


def _wait(pid: int, time_s: float) -> int | None:
    """Return the exit status of the child, as ``ChildOutcome`` has it; None if it does not end in time."""
    until_s = time.monotonic() + time_s
    while time.monotonic() < until_s:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(POLL_S)
    return None


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError, ChildProcessError):  # Ctrl-C came when its status was read
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _set_up(log: Path) -> None:
    for signal_number in ASKED_TO_END:
        signal.signal(signal_number, signal.SIG_DFL)
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
