"""A log file's name that a process owns while it lives; a later process reuses it."""

from __future__ import annotations

import errno
import os
import weakref
from pathlib import Path

from config.private_files import is_at, lock_private, private_folder

MAX_SLOTS = 10_000


class LogSlot:
    """Claims the smallest free number in a folder, by a lock that the kernel releases when the process ends."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._number = -1
        self._lock_fd = -1
        self._release: weakref.finalize[[int], LogSlot] | None = None

    def path(self) -> Path:
        """Return the process's log file, claimed on first use and again when its lock was deleted.

        Raises:
            OSError: the folder cannot be written.
        """
        if self._release is None or not is_at(self._lock_fd, self._lock_path(self._number)):
            self.release()
            self._claim()
        return self._folder / f"runs-{self._number}.log"

    def release(self) -> None:
        if self._release is not None:
            self._release()
            self._release = None

    def _claim(self) -> None:
        private_folder(self._folder)
        for number in range(MAX_SLOTS):
            path = self._lock_path(number)
            try:
                fd = lock_private(path)
            except PermissionError:
                if path.exists():  # another user's
                    continue
                raise
            if fd is not None:
                self._number, self._lock_fd = number, fd
                self._release = weakref.finalize(self, os.close, fd)
                self._release.atexit = False  # the last lines are written while the interpreter ends
                return
        raise OSError(errno.EMFILE, "no free log slot", str(self._folder))

    def _lock_path(self, number: int) -> Path:
        return self._folder / f"runs-{number}.lock"
