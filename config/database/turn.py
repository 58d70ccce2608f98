"""The queues of the writers to a SQLite file: the threads of a process, and the processes of the machine."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

GATE, TURN = 0, 1
"""The locked bytes: by the next writer, and by the current writer."""
WAIT_S = {GATE: 0.25, TURN: 1.0}
"""How long to wait for each: a process that was stopped while it held one must not block all others."""
SKIP_S = 5.0
"""How long a byte is not waited for after a timeout."""
POLL_S = 0.002


class FairLock:
    """A fair lock with priority for urgent threads.

    The lock is handed to the next waiter: a thread that releases it and takes it again at once queues behind those that
    wait. ``threading.Lock`` guarantees neither.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_taken = False
        self._waiting: deque[threading.Lock] = deque()

    def take(self, timeout_s: float, *, is_urgent: bool = False) -> bool:
        """Take the lock and return True, or return False after the timeout."""
        with self._lock:
            if not self._is_taken:
                self._is_taken = True
                return True
            ticket = threading.Lock()
            ticket.acquire()
            (self._waiting.appendleft if is_urgent else self._waiting.append)(ticket)
        try:
            if ticket.acquire(timeout=timeout_s):
                return True
        except BaseException:  # Ctrl-C, or a signal handler's error: the lock must not be handed to this thread later
            if not self._left(ticket):
                self.give_back()
            raise
        return not self._left(ticket)

    def _left(self, ticket: threading.Lock) -> bool:
        """Stop waiting, and return False if the lock was handed over at the same moment."""
        with self._lock:
            is_waiting = ticket in self._waiting
            if is_waiting:
                self._waiting.remove(ticket)
            return is_waiting

    def give_back(self) -> None:
        """Release the lock to the next waiter."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._is_taken = False


class FileTurn:
    """An advisory queue of the processes that write to one SQLite file.

    SQLite's own lock has no queue: a waiting process sleeps longer each time, and a process that writes without pause
    takes the lock again before any waiter wakes up. Two locked bytes of a file beside the database form a turnstile:
    one waiter at a time holds the gate, and a writer has to pass that gate before it writes again. The queue is
    advisory: SQLite's lock decides who writes, and a process that waits for gate or turn for too long proceeds without
    it. The kernel releases the locks of a process that ends.
    """

    def __init__(self, database_file: str | None) -> None:
        """``database_file``: None, for one in memory, disables the queue, as does a file that cannot be created."""
        self._path = Path(f"{database_file}-turn") if database_file else None
        self._file = -1
        self._pid = 0
        self._skip_until_s = {GATE: 0.0, TURN: 0.0}

    @contextmanager
    def taken(self, patience_s: float) -> Iterator[None]:
        """Hold the turn, or proceed without it after ``patience_s`` at most; for one thread at a time."""
        if not self._is_open():
            yield
            return
        until_s = time.monotonic() + patience_s
        is_at_gate = self._wait(GATE, until_s)
        try:
            has_turn = self._wait(TURN, until_s)
        finally:
            if is_at_gate:
                self._unlock(GATE)
        try:
            yield
        finally:
            if has_turn:
                self._unlock(TURN)

    def close(self) -> None:
        """Close the file without deleting it, since another process may have it open."""
        if self._file >= 0 and self._pid == os.getpid():
            os.close(self._file)
        self._file = -1

    def _is_open(self) -> bool:
        if self._path is None:
            return False
        if self._pid != os.getpid():  # a forked child opens its own
            self._pid, self._file = os.getpid(), -1
            with suppress(OSError):
                self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        return self._file >= 0

    def _wait(self, byte: int, until_s: float) -> bool:
        """Wait for the byte's lock for its time limit, and return whether this process has it."""
        now_s = time.monotonic()
        if now_s < self._skip_until_s[byte]:
            return self._lock(byte, now_s)
        is_locked = self._lock(byte, min(until_s, now_s + WAIT_S[byte]))
        if not is_locked:
            self._skip_until_s[byte] = time.monotonic() + SKIP_S
        return is_locked

    def _lock(self, byte: int, until_s: float) -> bool:
        while True:
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
            except OSError:
                if time.monotonic() >= until_s:
                    return False
                time.sleep(POLL_S)  # the kernel's blocking lock has no timeout
            else:
                return True

    def _unlock(self, byte: int) -> None:
        with suppress(OSError):
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, byte)
