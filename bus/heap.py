"""Keeping the garbage collector out of the way of what streams, and a worker's memory small."""

from __future__ import annotations

import ctypes
import gc
import resource
from contextlib import suppress
from pathlib import Path

THRESHOLDS = (50_000, 20, 100)


def settle_heap() -> None:
    """Take what a process has loaded out of all later collections, and have those come seldom.

    A full collection over the heap of a worker, LiteLLM's 2700 modules, stops every stream for a tenth of a
    second and more; over what runs leave behind it takes milliseconds. Called before a fork, it also leaves the pages
    of that heap shared: a collection writes to each object it looks at.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


GROWTH_BYTES = 32 * 1024 * 1024
"""By how much a process may grow before its free memory is given back to the system."""
WORTH_BYTES = 8 * 1024 * 1024
"""What giving back has to yield to be tried again at the next look."""
MOST_SKIPPED = 16
"""Looks that are skipped at most after it yielded less."""


class FreeMemory:
    """Gives memory that is free inside this process back to the system.

    glibc keeps what was freed beneath anything that lives: after large tool results a worker would stay as large as
    it was at its largest, in one arena a thread.
    """

    def __init__(self) -> None:
        self._smallest: int | None = None
        self._skips = 0  # how many looks the next pause has
        self._to_skip = 0

    def give_back(self) -> int:
        """Return how many bytes were given back; to be called every few seconds on a thread, off the loop.

        It costs milliseconds, so a process that is large because it needs its memory is asked ever more seldom.
        """
        size = resident_bytes()
        self._smallest = min(size, self._smallest) if self._smallest is not None else size
        if size < self._smallest + GROWTH_BYTES:
            self._skips = self._to_skip = 0
            return 0
        if self._to_skip > 0:
            self._to_skip -= 1
            return 0
        _trim()
        given = max(0, size - resident_bytes())
        self._skips = 0 if given >= WORTH_BYTES else min(2 * self._skips + 1, MOST_SKIPPED)
        self._to_skip = self._skips
        return given


def resident_bytes() -> int:
    """Return how much memory this process occupies; 0 on a system that does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return 0


def return_large_blocks() -> None:
    """Blocks of a mebibyte and more go back to the system when they are freed.

    glibc raises its limit for such blocks to the largest it has seen freed, and keeps what is smaller, in one arena a
    thread: twenty threads that each answered with 3 MB would hold more than 100 MB.
    """
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)


LARGE_BLOCK_BYTES = 1024 * 1024
_M_MMAP_THRESHOLD = -3


def _trim() -> None:
    with suppress(AttributeError, OSError):  # another libc than glibc, which gives memory back by itself
        ctypes.CDLL(None).malloc_trim(0)
