"""Live events nobody of this deployment signed: dropped, counted, and told to readers now and then."""

from __future__ import annotations

import logging
import time

log = logging.getLogger(__name__)

SAY_S = 60.0
"""Seconds between two warnings."""
HINT_S = 1.0
"""Seconds between two times a run's readers are told to ask SQL: no flood makes them ask more often."""


class Forgeries:
    """Counted for a process. What was dropped may have been a true event that somebody damaged on its way."""

    def __init__(self) -> None:
        self.count = 0
        self._said_at_s = float("-inf")
        self._hinted: dict[str, float] = {}

    def drop(self, where: str, size: int) -> None:
        """Count one, and say so at most once a minute; what it says is never told."""
        self.count += 1
        now_s = time.monotonic()
        if now_s - self._said_at_s >= SAY_S:
            self._said_at_s = now_s
            log.warning(
                "dropped what no process of this deployment signed, %s so far, the last of %s bytes in %s; "
                "see who else may write to Redis, and that all processes share one database",
                self.count, size, where,
            )  # fmt: skip

    def is_worth_a_hint(self, channel: str) -> bool:
        """Whether the channel's readers should ask SQL now."""
        now_s = time.monotonic()
        if now_s - self._hinted.get(channel, float("-inf")) < HINT_S:
            return False
        self._hinted[channel] = now_s
        return True

    def forget(self, channel: str) -> None:
        """Nobody reads this channel any more."""
        self._hinted.pop(channel, None)
