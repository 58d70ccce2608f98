"""Whose turn it is among the processes that write to one SQLite file.

SQLite's own lock has no queue: a process that waits sleeps longer each time, and one that writes without a pause takes
the lock again before anybody wakes up. Two locked bytes of a file beside the database are a turnstile: one waiter at a
time stands at its gate, and the writer itself has to pass that gate before it writes again. This is a courtesy. SQLite
decides who writes, and a process that finds gate or turn held for too long goes on without it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

with suppress(ImportError):  # Windows has none
    import fcntl

HAS_LOCKS = "fcntl" in globals()

GATE, TURN = 0, 1
"""The bytes that are locked: by the next one to write, and by the one that writes."""
COURTESY_S = {GATE: 0.25, TURN: 1.0}
"""How long each is waited for: a process that was stopped while it held one shall not stop all others."""
RUDE_S = 5.0
"""How long one is not waited for after that was in vain."""
LOOK_S = 0.002


class FileTurn:
    """One an open database. The kernel frees the locks of a process that ends, however it ends."""

    def __init__(self, database_file: str | None) -> None:
        """Without a file, or where it cannot be made, nobody waits for anybody."""
        is_file = HAS_LOCKS and database_file and not database_file.startswith((":memory:", "file:"))
        self._path = Path(f"{database_file}-turn") if is_file else None
        self._file = -1
        self._pid = 0
        self._rude_until_s = {GATE: 0.0, TURN: 0.0}

    @contextmanager
    def taken(self, patience_s: float) -> Iterator[None]:
        """Hold the turn, or go on without it when it did not come in time; for one thread at a time.

        It is waited for for ``patience_s`` at most.
        """
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
        """Close the file; it stays, since another process may have it open."""
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
        """Wait as long as courtesy demands, and return whether the byte is ours."""
        now_s = time.monotonic()
        if now_s < self._rude_until_s[byte]:
            return self._lock(byte, now_s)
        is_locked = self._lock(byte, min(until_s, now_s + COURTESY_S[byte]))
        if not is_locked:
            self._rude_until_s[byte] = time.monotonic() + RUDE_S
        return is_locked

    def _lock(self, byte: int, until_s: float) -> bool:
        while True:
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
            except OSError:
                if time.monotonic() >= until_s:
                    return False
                time.sleep(LOOK_S)  # the kernel's waiting lock has no timeout
            else:
                return True

    def _unlock(self, byte: int) -> None:
        with suppress(OSError):
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, byte)
