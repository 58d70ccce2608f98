"""Group commit: what waits to be written shares one transaction, and so one wait for the disk.

A slow disk makes the groups larger instead of the waits longer. There is no timer: a group begins as soon as a writer
is free, so a write that is alone does not wait for company.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sqlalchemy import Connection

from config.database import Database
from config.errors import DatabaseBusy, DatabaseFull, DatabaseReadOnly, DatabaseUnreachable

T = TypeVar("T")
LARGEST = 64
"""Writes in one group; Postgres keeps that many subtransactions of a transaction in memory."""
LONGEST_S = 0.1
"""How long a group's statements may take; the rest goes into the next one, behind heartbeats and other processes."""
LOCKED_MS = 200
"""How long a group waits for a row that another process has locked; that write then waits by itself (Postgres)."""
CLOSE_S = 2.0
"""How long the end of a process waits for a database that does not answer."""
IDLE_S = 30.0
"""How long a thread waits for work before it ends; the next write begins another."""
FOR_ALL = (DatabaseUnreachable, DatabaseFull, DatabaseReadOnly)
"""What goes wrong with every write alike, so that they need not be tried one by one."""


def _nothing() -> None:
    """Be done."""


@dataclass(eq=False, slots=True)
class _Write:
    """One caller's part of a group."""

    run_id: str
    work: Callable[[Connection], Any]
    then: Callable[[], None]
    future: Future[Any] = field(default_factory=Future)
    since_s: float = field(default_factory=time.monotonic)
    result: Any = None
    error: Exception | None = None
    is_apart: bool = False
    """Whether it is to be written in a transaction of its own, behind its group."""

    def finish(self) -> None:
        """Tell the caller; the transaction is committed, or nothing of this write is."""
        try:
            if self.error is None:
                self.then()
        except Exception as wrong:
            self.error = wrong
        if self.error is None:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(self.error)


class GroupCommit:
    """The one way in which the runs of a process are written to; callable from any thread."""

    def __init__(self, database: Database, threads: int = 1) -> None:
        """``threads``: how many groups may be on their way at once. SQLite has one writer."""
        self._database = database
        self._threads = threads
        self._waiting: deque[_Write] = deque()
        self._changed = threading.Condition()
        self._idle = 0
        self._started: set[threading.Thread] = set()
        self._writing: dict[int, float] = {}  # of each thread, since when the oldest write of its group waits
        self._is_closed = False

    def submit(
        self, run_id: str, work: Callable[[Connection], T], *, then: Callable[[], None] = _nothing,
        is_urgent: bool = False,
    ) -> Future[T]:  # fmt: skip
        """Return a future of what ``work`` returns, done when its transaction is committed. It cannot be cancelled.

        ``work`` is called on a writer's thread, and again when the group it was part of was rolled back. What it
        raises undoes only what it did itself. ``then`` is called behind the commit, before the future is done. An
        urgent write goes before all that wait.
        """
        write = _Write(run_id, work, then)
        write.future.set_running_or_notify_cancel()
        with self._changed:
            (self._waiting.appendleft if is_urgent else self._waiting.append)(write)
            self._wake()
        return write.future

    def _wake(self) -> None:
        """Have a thread look at what waits; the caller has the lock."""
        if self._idle < len(self._waiting) and len(self._started) < self._threads:
            thread = threading.Thread(target=self._work, name="callboard-commit", daemon=True)
            self._started.add(thread)
            thread.start()
        self._changed.notify()

    @property
    def delay_s(self) -> float:
        """How long the oldest write waits that is not committed yet; 0 where none does."""
        with self._changed:
            since = [*self._writing.values(), *(write.since_s for write in self._waiting)]
        return time.monotonic() - min(since) if since else 0.0

    def close(self) -> None:
        """Write what waits and end the threads, all within ``CLOSE_S``; what is not written by then is left."""
        until_s = time.monotonic() + CLOSE_S
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            threads = list(self._started)
        for thread in threads:
            thread.join(max(0.0, until_s - time.monotonic()))

    def _work(self) -> None:
        while self._is_wanted():
            self._write_group()

    def _is_wanted(self) -> bool:
        with self._changed:
            self._writing.pop(threading.get_ident(), None)
            self._idle += 1
            self._changed.wait_for(lambda: bool(self._waiting) or self._is_closed, IDLE_S)
            self._idle -= 1
            if not self._waiting:
                self._started.discard(threading.current_thread())
            return bool(self._waiting)

    def _take(self) -> list[_Write]:
        with self._changed:
            taken = [self._waiting.popleft() for _ in range(min(LARGEST, len(self._waiting)))]
            if taken:
                self._writing[threading.get_ident()] = min(write.since_s for write in taken)
        # Rows are locked in one order, here and in other processes: else two groups could wait for each other.
        return sorted(taken, key=lambda write: write.run_id)

    def _put_back(self, left: Sequence[_Write]) -> None:
        with self._changed:
            self._waiting.extendleft(reversed(left))
            self._wake()  # this thread may have a write to wait for

    def _write_group(self) -> None:
        """Write what waits now. On SQLite the transaction is begun first: more comes while its turn is waited for."""
        group: list[_Write] = []
        if not self._database.is_sqlite and not (group := self._take()):
            return  # another thread was quicker
        is_complete = False
        try:
            with self._database.write() as connection:
                group = group or self._take()
                self._do_all(connection, group)
                is_complete = True
        except Exception as wrong:
            group = group or self._take()
            is_final = is_complete or len(group) == 1 or self._concerns_all(wrong)
            for write in group:
                write.error, write.is_apart = wrong, not is_final
        apart = [write for write in group if write.is_apart]
        for write in group:
            if not write.is_apart:
                write.finish()
        for write in apart:
            self._write_alone(write)
            write.finish()

    def _do_all(self, connection: Connection, group: list[_Write]) -> None:
        """Do one write after another, for as long as a group may take."""
        until_s = time.monotonic() + LONGEST_S
        if len(group) > 1 and not self._database.is_sqlite:
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = {LOCKED_MS}")
        for number, write in enumerate(group):
            if number and time.monotonic() > until_s:
                self._put_back(group[number:])
                del group[number:]
                return
            if len(group) == 1:
                write.result = write.work(connection)
            else:
                self._do_beside_others(connection, write)

    def _do_beside_others(self, connection: Connection, write: _Write) -> None:
        """Do one write of several: what it raises undoes no other."""
        connection.exec_driver_sql("SAVEPOINT one_write")
        try:
            write.result, write.error = write.work(connection), None
        except Exception as wrong:
            named = self._database.named(wrong)
            if self._concerns_all(named):
                raise
            connection.exec_driver_sql("ROLLBACK TO SAVEPOINT one_write")
            write.error, write.is_apart = named, isinstance(named, DatabaseBusy)  # its row is locked by somebody else
        connection.exec_driver_sql("RELEASE SAVEPOINT one_write")

    def _write_alone(self, write: _Write) -> None:
        write.error = None
        try:
            with self._database.write() as connection:
                write.result = write.work(connection)
        except Exception as wrong:
            write.error = wrong

    def _concerns_all(self, wrong: Exception) -> bool:
        return isinstance(wrong, FOR_ALL) or (isinstance(wrong, DatabaseBusy) and self._database.is_sqlite)
