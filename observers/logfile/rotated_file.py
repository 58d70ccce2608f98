"""A log file of one process: its name, which it owns while it lives, whole lines, and its rotation when it is full."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import time
import weakref
from datetime import datetime
from pathlib import Path

from config.private_files import is_at, lock_private, open_private, private_folder

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


_STAMP = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")


class RotatedFile:
    """Appends to a file and rotates it when it is full (``.1`` is the newest); at most ``keep`` files exist.

    With ``max_age_s`` it is also rotated when its first line is that old, so that old files can be deleted. Another
    program may delete or rotate the file. A partial write is undone, so that the next one begins on a new line.
    """

    def __init__(self, max_bytes: int, keep: int, max_age_s: float | None = None) -> None:
        self._max_bytes = max_bytes
        self._keep = keep
        self._max_age_s = max_age_s
        self._since_s = 0.0
        self._fd = -1
        self._torn = False

    def append(self, path: Path, lines: bytes) -> None:
        """Write whole lines at the end of ``path``, or raise and leave it as it was.

        Raises:
            OSError: nothing was written; the same lines may be tried again.
        """
        try:
            self._open(path)
            size = self._size()
            is_old = self._max_age_s is not None and time.time() - self._since_s > self._max_age_s
            if size and (is_old or size + len(lines) > self._max_bytes):
                self._rotate(path)
                size = 0
            self._write(b"\n" + lines if self._torn else lines, size)
        except OSError:
            self.close()
            raise
        self._torn = False

    def close(self) -> None:
        """Close the file; the next append opens it again."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        self.close()

    def _open(self, path: Path) -> None:
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                if os.path.samestat(os.fstat(self._fd), os.stat(path)):
                    return
            self.close()
        private_folder(path.parent)
        self._fd = open_private(path, os.O_RDWR | os.O_APPEND)
        size = self._size()
        self._since_s = _first_stamp(os.pread(self._fd, 200, 0)) if size else time.time()
        # The process that wrote before may have been killed in the middle of a line.
        self._torn = size > 0 and os.pread(self._fd, 1, size - 1) != b"\n"

    def _size(self) -> int:
        """Return the bytes in the file; 0 for what is no plain file, such as a device or a pipe."""
        state = os.fstat(self._fd)
        return state.st_size if stat.S_ISREG(state.st_mode) else 0

    def _rotate(self, path: Path) -> None:
        for number in range(self._keep - 1, 0, -1):
            older = f"{path}.{number - 1}" if number > 1 else path
            with contextlib.suppress(FileNotFoundError):
                os.replace(older, f"{path}.{number}")
        self.close()
        self._open(path)

    def _write(self, lines: bytes, size: int) -> None:
        left = memoryview(lines)
        try:
            while left:
                left = left[os.write(self._fd, left) :]
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, size)
            raise


def _first_stamp(line: bytes) -> float:
    """Return the time in a line, in seconds since 1970, or now where it has none."""
    match = _STAMP.search(line)
    return datetime.fromisoformat(f"{match[0].decode()}+00:00").timestamp() if match else time.time()
