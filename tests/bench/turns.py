"""A tool with which two long runs take turns, so that what a busy machine does to one it does to the other."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

from agents.tools import current_call, tool

STRETCH = 25
"""Rounds of a run before it is the other's turn."""


class Turns:
    """Lets an old run continue alone for a while, and then in turns with a new one; times every stretch."""

    def __init__(self, *, alone: int, old_rounds: int, new_rounds: int, on_old_round: Callable[[], None]) -> None:
        self._alone = alone
        self._rounds = {"old": old_rounds, "new": new_rounds}
        self._on_old_round = on_old_round
        self._names: dict[str, str] = {}
        self._done = {"old": 0, "new": 0}
        self._left = {"old": 0, "new": STRETCH + 1}
        self._began_s = {"old": 0.0, "new": 0.0}
        self._mine = {"old": asyncio.Event(), "new": asyncio.Event()}
        self._is_over = False
        self.is_time = threading.Event()
        """Set when the new run has to be started."""
        self.round_s: dict[str, list[float]] = {"old": [], "new": []}
        """Seconds a round took in each stretch."""

    async def arrive(self, run_id: str) -> None:
        """Count a round of this run; return when it may continue."""
        who = self._names.setdefault(run_id, "new" if self._names else "old")
        self._done[who] += 1
        if who == "old":
            self._on_old_round()
            if self._done[who] < self._alone:
                return
        if self._done[who] == self._rounds[who]:
            self._is_over = True
            self._mine["new" if who == "old" else "old"].set()
            return
        await self._count(who)

    async def _count(self, who: str) -> None:
        if self._left[who] == STRETCH + 1:  # the new run's first round, which has its warm-up
            self._began_s[who] = time.perf_counter()
        self._left[who] -= 1
        if self._left[who] > 0 or self._is_over:
            return
        if self._began_s[who]:
            self.round_s[who].append((time.perf_counter() - self._began_s[who]) / STRETCH)
        await self._let_the_other_go(who)
        self._left[who] = STRETCH
        self._began_s[who] = time.perf_counter()

    async def _let_the_other_go(self, who: str) -> None:
        self.is_time.set()
        self._mine[who].clear()
        self._mine["new" if who == "old" else "old"].set()
        await self._mine[who].wait()


_turns: Turns | None = None


def use_turns(turns: Turns | None) -> None:
    """Let the tool's calls from now on arrive at these."""
    global _turns
    _turns = turns


@tool(effect="pure")
async def next_round() -> int:
    """Return when it is this run's turn."""
    if _turns is not None:
        await _turns.arrive(current_call().run_id)
    return 391
