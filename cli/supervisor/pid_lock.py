"""One `up` per state folder: a file that is locked as long as its owner lives, with its pid and address in it."""

from __future__ import annotations

import fcntl
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from config.private_files import open_private

WRITING_TIMEOUT_S = 2.0
"""How long the owner may take between locking and writing its address."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Owner:
    """Who holds the state folder."""

    pid: int
    address: str
    workers: int = 0
    """Worker processes it keeps."""


class PidLock:
    """The lock; the kernel drops it with the process, so a crash leaves nothing to clean up."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[str] | None = None

    def take(self) -> Owner | None:
        """Hold the lock and return None, or return who holds it."""
        file = os.fdopen(open_private(self._path, os.O_RDWR | os.O_APPEND), "a+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            return self._owner()
        file.truncate(0)
        self._file = file
        return None

    def announce(self, address: str, workers: int = 0) -> None:
        """Write down where the page is and how many workers there will be, for other processes."""
        assert self._file is not None, "take() comes first"
        self._file.seek(0)
        self._file.truncate(0)
        self._file.write(json.dumps({"pid": os.getpid(), "address": address, "workers": workers}))
        self._file.flush()

    def release(self) -> None:
        """Somebody else may have the state folder now."""
        if self._file is not None:
            self._file.truncate(0)
            self._file.close()
            self._file = None

    def _owner(self) -> Owner:
        until = time.monotonic() + WRITING_TIMEOUT_S
        while True:
            try:
                return Owner(**json.loads(self._path.read_text()))
            except (ValueError, TypeError):
                if time.monotonic() > until:
                    return Owner(pid=0, address="an address it has not said yet")
            time.sleep(0.02)
