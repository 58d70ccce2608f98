"""Tune the garbage collector so that it does not delay streams, and return free memory to the system."""

from __future__ import annotations

import ctypes
import gc
import resource
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

THRESHOLDS = (5_000, 200, 100)
"""A pass over 5,000 young objects takes 3 ms of a busy worker; over 50,000, 25 to 50 ms, in which no stream moves."""


def collect_rarely() -> None:
    """Make collections rare; called before the imports of a process, whose objects stay, so that none is of use."""
    gc.set_threshold(*THRESHOLDS)


def freeze_gc() -> None:
    """Exclude all loaded objects from later collections, and make those rare.

    A full collection of a worker's heap, with LiteLLM's 2700 modules, delays every stream by 0.1 s or more; one
    of the runs' garbage takes milliseconds. Called before a fork, it also keeps the heap shared, since a
    collection writes to each object it visits.
    """
    gc.collect()
    gc.freeze()
    collect_rarely()


GROWTH_BYTES = 32 * 1024 * 1024
"""Growth of a process after which its free memory is returned to the system."""
WORTH_BYTES = 8 * 1024 * 1024
"""Bytes that returning memory has to yield to be tried again at the next call."""
MAX_SKIPPED = 16
"""Most calls that are skipped after it yielded less."""


def resident_bytes() -> int:
    """Return this process's resident memory; 0 on a system without /proc."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return 0


def trim_heap() -> None:
    """Make glibc return free memory to the system; does nothing with another C library."""
    with suppress(AttributeError, OSError):  # not glibc
        ctypes.CDLL(None).malloc_trim(0)


class FreeMemory:
    """Returns this process's free memory to the system.

    glibc keeps freed memory below any live block: after large tool results a worker would keep its peak size, in one
    arena per thread.
    """

    def __init__(self, size: Callable[[], int] = resident_bytes, trim: Callable[[], None] = trim_heap) -> None:
        self._size, self._trim = size, trim
        self._smallest: int | None = None
        self._skips = 0  # calls in the next pause
        self._to_skip = 0

    def give_back(self) -> int:
        """Return memory to the system, and return its bytes; call it every few seconds on a thread, not the loop.

        It takes milliseconds, so it backs off while it yields little.
        """
        size = self._size()
        self._smallest = min(size, self._smallest) if self._smallest is not None else size
        if size < self._smallest + GROWTH_BYTES:
            self._skips = self._to_skip = 0
            return 0
        if self._to_skip > 0:
            self._to_skip -= 1
            return 0
        self._trim()
        byte_count = max(0, size - self._size())
        self._skips = 0 if byte_count >= WORTH_BYTES else min(2 * self._skips + 1, MAX_SKIPPED)
        self._to_skip = self._skips
        return byte_count


def return_large_blocks() -> None:
    """Make glibc return blocks of 1 MiB and more to the system when they are freed.

    By default it raises that threshold to the largest freed block and keeps smaller ones, in one arena per thread:
    twenty threads that each answered with 3 MB would hold more than 100 MB.
    """
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)


LARGE_BLOCK_BYTES = 1024 * 1024
_M_MMAP_THRESHOLD = -3
