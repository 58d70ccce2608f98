"""Leaving: on SIGTERM nothing more is taken, each run is let go at the end of its step, and then the process ends.

A run that was let go continues elsewhere at once and counts no crash. What does not end its step in time is
let go in the middle of it, and what even then holds the process does not hold it long.
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
from handlers.desk import Desk

log = logging.getLogger(__name__)

LAST_S = 4.0
"""Seconds after the grace in which runs are written down as let go; then the process ends whatever its threads do."""
CHILD_SIGNAL = signal.SIGUSR2
"""What a prefork parent tells its children to drain with; SIGTERM would end them."""


def end_without_teardown(status: int) -> None:
    """Let the process end with this status as soon as its code has run to its end.

    Python would take the heap apart first: with LiteLLM loaded that is two seconds of CPU, on a busy machine ten, and
    no thread of ours runs meanwhile, so no deadline holds. The system takes the memory back at once.
    """

    def end() -> None:
        logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        os._exit(status)

    atexit.register(end)


class Drain:
    """One a worker process. Begun twice, nothing more happens."""

    def __init__(self, here: Process, desk: Desk) -> None:
        self._here = here
        self._desk = desk
        self._begun = threading.Event()
        self._over = threading.Event()
        desk.on_refused = here.journal.relay.tell

    def begin(self) -> None:
        """Start to drain, on a thread of its own; may be called by a signal's handler."""
        if not self._begun.is_set():
            self._begun.set()
            threading.Thread(target=self._drain, name="callboard-drain", daemon=True).start()

    def finish(self) -> None:
        """Know that everything was let go and closed: the process ends by itself."""
        self._over.set()

    def _drain(self) -> None:
        journal = self._here.journal
        log.info("worker takes no more runs busy=%s", journal.keeper.busy)
        self._desk.close()
        journal.loop.call_soon(journal.keeper.release_all)
        if self._over.wait(self._here.settings.drain_s):
            return
        log.warning("runs are let go in the middle of their steps busy=%s", journal.keeper.busy)
        journal.loop.call_soon(journal.keeper.cut_all)
        if not self._over.wait(LAST_S):
            log.warning("the worker ends although threads of it are still at work")
            os._exit(0)


class ParentDrain:
    """Draining as a prefork parent does it: its children drain, and it outlives none of them for long."""

    def __init__(self, worker: Any, drain_s: float) -> None:
        """``worker`` is Celery's controller."""
        self._worker = worker
        self._drain_s = drain_s
        # A child that has just been forked has no handler yet, and would die of the signal.
        signal.signal(CHILD_SIGNAL, signal.SIG_IGN)

    def begin(self) -> None:
        """Have the children drain; called by a signal's handler."""
        self._tell(CHILD_SIGNAL)
        threading.Thread(target=self._end, name="callboard-drain", daemon=True).start()

    def _end(self) -> None:
        time.sleep(self._drain_s + LAST_S)  # the children have as long; a process that ends earlier ends this too
        log.warning("the worker ends although children of it are still at work")
        self._tell(signal.SIGKILL)
        os._exit(0)

    def _tell(self, number: signal.Signals) -> None:
        pool = getattr(getattr(self._worker, "pool", None), "_pool", None)
        for child in list(getattr(pool, "_pool", None) or ()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, number)
