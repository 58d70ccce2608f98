"""How much of a processor and of the memory this process uses: two of the signals by which a fleet is scaled."""

from __future__ import annotations

import os
import time
from pathlib import Path

CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


class ProcessLoad:
    """How much of a processor this process uses, between two looks."""

    def __init__(self) -> None:
        self._at_s, self._used_s = time.monotonic(), time.process_time()

    def cpu_share(self) -> float:
        """Return the share of one processor since the last call: 0 to 1, or more with several."""
        now_s, used_s = time.monotonic(), time.process_time()
        share = (used_s - self._used_s) / max(0.001, now_s - self._at_s)
        self._at_s, self._used_s = now_s, used_s
        return round(share, 4)


def memory_share() -> float | None:
    """Return how much this process uses of the memory of its container, or else of the machine; None off Linux."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        total = os.sysconf("SC_PHYS_PAGES")
        limits = [int(text) for text in map(_limit, CGROUP_LIMITS) if text.isdigit()]
        return round(pages / min([total, *(limit // os.sysconf("SC_PAGE_SIZE") for limit in limits)]), 4)
    except (OSError, ValueError, IndexError, ZeroDivisionError):
        return None


def _limit(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
