"""The calls that were given up and have not ended: they are counted by tool, and a tool with many is not called."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

from config.forks import after_fork

MAX_OF_TOOL = 8
"""Calls of one tool that may be given up and still run in a process; at this number the tool is not called."""
MAX_OF_PROCESS = 32
"""The same of all tools; at this number none that has such a call is called, so that half of the places stay free."""


class AbandonedCalls:
    """The abandoned calls of a process. Safe for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: list[tuple[str, Callable[[], bool]]] = []

    def add(self, tool: str, has_ended: Callable[[], bool]) -> None:
        """Count a call until ``has_ended`` returns True, which any thread may ask at any time."""
        with self._lock:
            self._calls.append((tool, has_ended))

    def counts(self) -> dict[str, int]:
        """Return the number of calls by tool, those with most calls first."""
        with self._lock:
            self._calls = [(tool, has_ended) for tool, has_ended in self._calls if not has_ended()]
            return dict(Counter(tool for tool, _ in self._calls).most_common())

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
