"""The calls that were given up and have not ended: they are counted by tool, and a tool with many is not called."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from config.forks import after_fork

MAX_OF_TOOL = 8
"""Calls of one tool that may be given up and still run in a process; at this number the tool is not called."""
MAX_OF_PROCESS = 32
"""The same of all tools; at this number none that has such a call is called, so that half of the places stay free."""

CANCELLED_S = 10.0
"""Seconds that a cancelled async tool may take for its end, such as removing a container, before it counts."""


class _Abandoned(NamedTuple):
    tool: str
    has_ended: Callable[[], bool]
    since_s: float
    """The monotonic time from which on it counts."""


class AbandonedCalls:
    """The abandoned calls of a process. Safe for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: list[_Abandoned] = []

    def add(self, tool: str, has_ended: Callable[[], bool], *, after_s: float = 0.0) -> None:
        """Count a call, ``after_s`` seconds from now on, until ``has_ended`` returns True.

        Any thread may ask ``has_ended`` at any time.
        """
        with self._lock:
            self._calls.append(_Abandoned(tool, has_ended, time.monotonic() + after_s))

    def counts(self) -> dict[str, int]:
        """Return the number of calls by tool, those with most calls first."""
        with self._lock:
            self._calls = [call for call in self._calls if not call.has_ended()]
            now_s = time.monotonic()
            return dict(Counter(entry.tool for entry in self._calls if entry.since_s <= now_s).most_common())

    def forget(self) -> None:
        """Count none of the calls any longer."""
        self._lock, self._calls = threading.Lock(), []

    def refusal(self, tool: str) -> str | None:
        """Return why the tool is not called now, as a part of a sentence; None where it may be."""
        if not self._calls:
            return None
        counts = self.counts()
        own, total = counts.get(tool, 0), sum(counts.values())
        if own >= MAX_OF_TOOL or (own and total >= MAX_OF_PROCESS):
            return f"{own} earlier calls of it were given up and have not ended, of {total} in this worker"
        return None


ABANDONED = AbandonedCalls()


@after_fork
def _renew() -> None:
    """Forget the calls of the parent, whose threads are not here."""
    ABANDONED.forget()
