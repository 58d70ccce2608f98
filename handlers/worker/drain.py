"""Draining: on SIGTERM a worker takes no more runs, releases each run at the end of its step, and then exits.

Another worker continues a released run at once, and no crash is counted. A run whose step does not end within the
grace is released in the middle of it. ``LAST_S`` later the process exits, whatever its threads do.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import signal
import sys
import threading
import time
from typing import Any

from agents.process import Process
from handlers.worker.slots import SlotPool

log = logging.getLogger(__name__)

LAST_S = 4.0
"""Seconds after the grace in which the releases are committed; then the process exits."""
CHILD_SIGNAL = signal.SIGUSR2
"""The signal by which a prefork parent makes its children drain; SIGTERM would end them."""


def end_without_teardown(status: int) -> None:
    """Make the process exit with this status without Python's teardown of the heap.

    With LiteLLM loaded the teardown takes 2 s of CPU, on a busy machine 10 s, during which no thread runs and no
    deadline holds. The operating system frees the memory at once.
    """

    def end() -> None:
        logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        os._exit(status)

    atexit.register(end)


class Drain:
    """The drain of one worker process."""

    def __init__(self, process: Process, slots: SlotPool) -> None:
        self._process = process
        self._slots = slots
        self._begun = threading.Event()
        self._over = threading.Event()
        slots.on_refused = process.journal.live.relay.publish_soon

    @property
    def has_begun(self) -> bool:
        """Whether this process takes no more runs."""
        return self._begun.is_set()

    def begin(self) -> None:
        """Start to drain on a thread of its own; a second call does nothing. May be called by a signal handler."""
        if not self._begun.is_set():
            self._begun.set()
            threading.Thread(target=self._drain, name="callboard-drain", daemon=True).start()

    def wait(self) -> None:
        """Drain, and return when this process has no run; where one does not end, the forced exit ends the process."""
        self.begin()
        self._slots.wait()

    def finish(self) -> None:
        """Cancel the forced exit: every run was released, and the process exits by itself."""
        self._over.set()

    def _drain(self) -> None:
        journal = self._process.journal
        log.info("worker takes no more runs busy=%s", journal.owner.lease_manager.busy)
        self._slots.close()
        journal.loop.call_soon(journal.owner.lease_manager.release_all)
        if self._over.wait(self._process.settings.drain_s):
            return
        log.warning("runs are released in the middle of their steps busy=%s", journal.owner.lease_manager.busy)
        journal.loop.call_soon(journal.owner.lease_manager.cut_all)
        if not self._over.wait(LAST_S):
            log.warning("the worker exits although threads of it are still at work")
            os._exit(0)


class ParentDrain:
    """The drain of a prefork parent: its children drain, and it exits soon after them."""

    def __init__(self, worker: Any, drain_s: float) -> None:
        """``worker`` is Celery's controller."""
        self._worker = worker
        self._drain_s = drain_s
        # A child that has just been forked has no handler yet, and the signal would kill it.
        signal.signal(CHILD_SIGNAL, signal.SIG_IGN)

    def begin(self) -> None:
        """Make the children drain; called by a signal handler."""
        self._signal_children(CHILD_SIGNAL)
        threading.Thread(target=self._end, name="callboard-drain", daemon=True).start()

    def _end(self) -> None:
        # The children have the same deadline, and this daemon thread ends with the process.
        time.sleep(self._drain_s + LAST_S)
        log.warning("the worker exits although children of it are still at work")
        self._signal_children(signal.SIGKILL)
        os._exit(0)

    def _signal_children(self, number: signal.Signals) -> None:
        pool = getattr(getattr(self._worker, "pool", None), "_pool", None)
        for child in list(getattr(pool, "_pool", None) or ()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, number)
