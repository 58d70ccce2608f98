"""Group commit: pending writes of many runs share one transaction, and so one fsync.

On a slow disk the groups become larger instead of the waits longer. There is no timer: a group begins as soon as a
writer thread is free, so a single write is not delayed.
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

from config.database.engine import Database
from config.database.errors import DatabaseBusy, DatabaseFull, DatabaseReadOnly, DatabaseUnreachable

T = TypeVar("T")
Last = Callable[[Connection], None]
"""What a write does behind the work of its whole group."""
LARGEST = 64
"""Writes in one group; Postgres keeps that many subtransactions of a transaction in memory."""
LONGEST_S = 0.1
"""Seconds that a group's statements may take; the remaining writes go into the next group, so that heartbeats and
other processes can write in between."""
LOCKED_MS = 200
"""Milliseconds a group waits for a row that another process has locked; that write then gets its own transaction
(Postgres)."""
CLOSE_S = 2.0
"""Seconds that closing waits for a database that does not answer."""
IDLE_S = 30.0
"""Seconds that a thread waits for work before it ends; the next write starts another."""
FOR_ALL = (DatabaseUnreachable, DatabaseFull, DatabaseReadOnly)
"""Errors that fail every write alike, so that the group's writes are not retried one by one."""


@dataclass(eq=False, slots=True)
class _Write:
    """One caller's write."""

    run_id: str
    work: Callable[[Connection], Any]
    then: Callable[[], None]
    last: Last | None = None
    future: Future[Any] = field(default_factory=Future)
    since_s: float = field(default_factory=time.monotonic)
    result: Any = None
    error: Exception | None = None
    is_apart: bool = False
    """Whether it gets a transaction of its own, after its group."""

    def finish(self) -> None:
        """Complete the caller's future: the transaction is committed, or this write was rolled back."""
        try:
            if self.error is None:
                self.then()
        except Exception as error:
            self.error = error
        if self.error is None:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(self.error)


class GroupCommit:
    """Writes all changes of a process's runs; callable from any thread."""

    def __init__(self, database: Database, threads: int = 1) -> None:
        """``threads``: how many groups may be written at once; 1 for SQLite, which has one writer."""
        self._database = database
        self._threads = threads
        self._waiting: deque[_Write] = deque()
        self._changed = threading.Condition()
        self._idle = 0
        self._started: set[threading.Thread] = set()
        self._writing: dict[int, float] = {}  # by thread, since when the oldest write of its group waits
        self._is_closed = False

    def submit(
        self,
        run_id: str,
        work: Callable[[Connection], T],
        *,
        then: Callable[[], None] = lambda: None,
        last: Last | None = None,
        is_urgent: bool = False,
    ) -> Future[T]:
        """Return a future of the result of ``work``, done when its transaction is committed; it cannot be cancelled.

        ``work`` is called on a writer thread, and again if its group was rolled back. An exception of ``work`` rolls
        back only its own statements. ``last`` is called behind the work of the whole group, in its transaction: for
        what locks a row that others need. ``then`` is called after the commit, before the future is done. An urgent
        write goes before all that wait.
        """
        write = _Write(run_id, work, then, last)
        write.future.set_running_or_notify_cancel()
        with self._changed:
            (self._waiting.appendleft if is_urgent else self._waiting.append)(write)
            self._wake()
        return write.future

    def run(self, run_id: str, work: Callable[[Connection], T], *, last: Last | None = None) -> T:
        """Return the result of ``work`` when its transaction is committed; for a thread that waits for it anyway.

        ``last`` is called as that of ``submit``.

        While nothing else is written or waits, the calling thread writes by itself: the change to a writer's thread
        and back takes longer than the statements of a claim, because each waits for the interpreter's lock.
        """
        this = threading.get_ident()
        with self._changed:
            is_alone = not self._waiting and not self._writing
            if is_alone:
                self._writing[this] = time.monotonic()
        if not is_alone:
            return self.submit(run_id, work, last=last).result()
        try:
            with self._database.write() as connection:
                result = work(connection)
                if last is not None:
                    last(connection)
                return result
        finally:
            with self._changed:
                del self._writing[this]

    def _wake(self) -> None:
        """Wake or start a thread for the waiting writes; the caller holds the lock."""
        if self._idle < len(self._waiting) and len(self._started) < self._threads:
            thread = threading.Thread(target=self._work, name="callboard-commit", daemon=True)
            self._started.add(thread)
            thread.start()
        self._changed.notify()

    @property
    def delay_s(self) -> float:
        """Seconds that the oldest uncommitted write has waited; 0 where none waits."""
        with self._changed:
            since = [*self._writing.values(), *(write.since_s for write in self._waiting)]
        return time.monotonic() - min(since) if since else 0.0

    def close(self) -> None:
        """Write what waits and end the threads within ``CLOSE_S``; later writes are dropped."""
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
        # Rows are locked in the same order in every process: else two groups could deadlock.
        return sorted(taken, key=lambda write: write.run_id)

    def _put_back(self, left: Sequence[_Write]) -> None:
        with self._changed:
            self._waiting.extendleft(reversed(left))
            self._wake()  # this thread may have a write to wait for

    def _write_group(self) -> None:
        """Write what waits now. On SQLite the transaction begins first: more writes arrive while it waits its turn."""
        group = [] if self._database.is_sqlite else self._take()
        if group or self._database.is_sqlite:  # else another thread took the writes
            for write in self._commit(group):
                self._commit([write])

    def _commit(self, group: list[_Write]) -> list[_Write]:
        """Write the group (an empty one: what waits) and return those writes that need a transaction of their own."""
        is_complete = False
        try:
            with self._database.write() as connection:
                group = group or self._take()
                self._do_all(connection, group)
                is_complete = True
        except Exception as error:
            group = group or self._take()
            is_final = is_complete or len(group) == 1 or self._concerns_all(error)
            for write in group:
                write.error, write.is_apart = error, not is_final
        for write in group:
            if not write.is_apart:
                write.finish()
        return [write for write in group if write.is_apart]

    def _do_all(self, connection: Connection, group: list[_Write]) -> None:
        """Do one write after another, for at most ``LONGEST_S``."""
        until_s = time.monotonic() + LONGEST_S
        if len(group) > 1 and not self._database.is_sqlite:
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = {LOCKED_MS}")
        for number, write in enumerate(group):
            if number and time.monotonic() > until_s:
                self._put_back(group[number:])
                del group[number:]
                break
            if len(group) == 1:
                write.is_apart, write.error = False, None
                write.result = write.work(connection)
            else:
                self._do_beside_others(connection, write)
        for write in group:
            if write.last is not None and write.error is None:
                write.last(connection)

    def _do_beside_others(self, connection: Connection, write: _Write) -> None:
        """Do one write of several behind a savepoint: its exception rolls back no other write."""
        connection.exec_driver_sql("SAVEPOINT one_write")
        try:
            write.result, write.error = write.work(connection), None
        except Exception as error:
            named = self._database.named(error)
            if self._concerns_all(named):
                raise
            connection.exec_driver_sql("ROLLBACK TO SAVEPOINT one_write")
            write.error, write.is_apart = named, isinstance(named, DatabaseBusy)  # another process has locked its row
        connection.exec_driver_sql("RELEASE SAVEPOINT one_write")

    def _concerns_all(self, error: Exception) -> bool:
        return isinstance(error, FOR_ALL) or (isinstance(error, DatabaseBusy) and self._database.is_sqlite)
