"""One `up` per state folder: a file that its owner keeps locked, with the owner's pid and address in it."""

from __future__ import annotations

import fcntl
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from config.database.errors import STATE_DIR_UNWRITABLE
from config.private_files import open_private

WRITING_TIMEOUT_S = 2.0
"""How long the owner may take between locking and writing its address."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LockOwner:
    """The process that holds the lock."""

    pid: int
    address: str


class PidLock:
    """A file lock, which the kernel releases when the process ends, so a crash leaves no stale lock."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[str] | None = None
        """Locked since ``take`` returned None."""

    def take(self) -> LockOwner | None:
        """Take the lock and return None, or return its owner.

        Raises:
            STATE_DIR_UNWRITABLE: the folder's file system has no locks.
        """
        file = os.fdopen(open_private(self._path, os.O_RDWR | os.O_APPEND), "a+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return self._owner()
        except OSError as error:
            file.close()
            raise STATE_DIR_UNWRITABLE(
                f"{self._path} cannot be locked ({error.strerror}); choose a state folder on a local disk with "
                "--state-dir or CALLBOARD_STATE_DIR."
            ) from error
        file.truncate(0)
        self._file = file
        return None

    def owner(self) -> LockOwner | None:
        """Return the process that holds the lock; None where none does."""
        try:
            with self._path.open() as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return self._owner()
        except OSError:
            return None
        return None

    def announce(self, address: str, workers: int = 0) -> None:
        """Write the page's address and the number of workers for other processes."""
        assert self._file is not None, "take() comes first"
        self._file.seek(0)
        self._file.truncate(0)
        self._file.write(json.dumps({"pid": os.getpid(), "address": address, "workers": workers}))
        self._file.flush()

    def is_in_place(self) -> bool:
        """Return whether the locked file is still at its path; another `up` could start beside this one if not."""
        assert self._file is not None, "take() comes first"
        try:
            return os.path.samestat(os.fstat(self._file.fileno()), self._path.stat())
        except OSError:
            return False

    def release(self) -> None:
        if self._file is not None:
            self._file.truncate(0)
            self._file.close()

    def _owner(self) -> LockOwner:
        until = time.monotonic() + WRITING_TIMEOUT_S
        while True:
            try:
                owner = json.loads(self._path.read_text())
                return LockOwner(pid=owner["pid"], address=owner["address"])
            except (ValueError, TypeError, KeyError):
                if time.monotonic() > until:
                    return LockOwner(pid=0, address="an address that is not known yet")
            time.sleep(0.02)
