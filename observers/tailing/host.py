"""The threads of one process that feed observers, and the one that watches them."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time

from bus.journal.tailing import Member, ObserverCursors, failed, new_owner_id
from config.database.engine import Database
from config.errors import CallboardError
from config.settings import Settings
from config.settings.project import own_version
from observers.tailing.tailed import Tailed
from observers.tailing.tailer import Tailer

log = logging.getLogger(__name__)

WATCH_S = 0.5
"""Seconds between two looks at the calls that are under way."""
MAX_ABANDONED = 10
"""Calls that may never return; each keeps a thread. Beyond it the observer is not fed by this process any more."""
STOP_S = 10.0
"""Seconds that the end of the process waits for calls that are under way."""


class ObserverHost:
    """Feeds observers until it is stopped."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self._settings, self._database = settings, database
        self._cursors = ObserverCursors(database)
        self._stopping = threading.Event()
        self._threads: dict[Tailer, threading.Thread] = {}
        self._abandoned: dict[str, int] = {}
        self._watch: threading.Thread | None = None

    def start(self, tailed: Tailed) -> bool:
        """Register an observer, start its threads, and return whether it is new.

        Raises:
            OBSERVER_AHEAD: it is to start beyond the end of the log; nothing was registered, as with the others.
            SettingInvalid: another process feeds another class under its name.
            CallboardError: it cannot be made with these settings.
        """
        tailers = [self._tailer(tailed) for _ in range(tailed.threads)]
        parts = tailed.name, tailed.class_path, tailed.delivery, tailed.selection.as_json()
        is_new = self._cursors.register(*parts, tailed.start)
        if is_new:
            log.info("observer '%s' is new and starts at %s", tailed.name, tailed.start)
        for tailer in tailers:
            self._feed(tailer)
        if self._watch is None:
            self._watch = threading.Thread(target=self._work, name="callboard-observers", daemon=True)
            self._watch.start()
        return is_new

    def stop(self) -> None:
        """Let the calls that are under way end, store what was delivered, and free the partitions."""
        self._stopping.set()
        deadline = time.monotonic() + STOP_S
        for thread in [*self._threads.values(), self._watch]:
            if thread is not None:
                thread.join(max(0.0, deadline - time.monotonic()))

    @property
    def is_idle(self) -> bool:
        """Whether no thread feeds an observer any more."""
        return not any(thread.is_alive() for thread in self._threads.values())

    def _tailer(self, tailed: Tailed) -> Tailer:
        member = Member(id=new_owner_id(), host=socket.gethostname(), pid=os.getpid(), version=own_version())
        return Tailer(tailed, self._settings, self._database, member)

    def _feed(self, tailer: Tailer) -> None:
        name = f"observer-{tailer.tailed.name}"
        thread = threading.Thread(target=self._tail, args=(tailer,), name=name, daemon=True)
        self._threads[tailer] = thread
        thread.start()

    def _tail(self, tailer: Tailer) -> None:
        try:
            tailer.work(self._stopping)
        except CallboardError as error:
            log.error("observer '%s' is not fed by this process any more: %s", tailer.tailed.name, error)
        except Exception:
            log.exception("observer '%s' is not fed by this process any more", tailer.tailed.name)

    # --- calls that take long

    def _work(self) -> None:
        while not self._stopping.wait(WATCH_S):
            for tailer in [tailer for tailer, thread in [*self._threads.items()] if thread.is_alive()]:
                try:
                    self._look(tailer)
                except CallboardError as error:
                    log.warning("observer '%s' cannot be watched: %s", tailer.tailed.name, error)

    def _look(self, tailer: Tailer) -> None:
        call, tailed = tailer.call, tailer.tailed
        if call is None or tailer.is_abandoned:
            return
        took_s = time.monotonic() - call.began_s
        if took_s <= tailed.timeout_s:
            tailer.beat()
            return
        tailer.is_abandoned = True
        log.warning("observer '%s' took over %g s for one event and is given up", tailed.name, tailed.timeout_s)
        error = f"TimeoutError: no return within {tailed.timeout_s:g} s"
        failure = failed(call.row, error, tailer.failure_of(call.row), tailed.retry_for_s)
        if tailed.delivery == "best_effort":
            self._cursors.leave(tailed.name, tailer.member, dropped=call.row)
        else:
            self._cursors.leave(tailed.name, tailer.member, failure)
        self._threads.pop(tailer)
        self._abandoned[tailed.name] = self._abandoned.get(tailed.name, 0) + 1
        if self._abandoned[tailed.name] <= MAX_ABANDONED:
            self._feed(self._tailer(tailed))
        else:
            log.error("observer '%s' hangs again and again and is not fed by this process any more", tailed.name)
