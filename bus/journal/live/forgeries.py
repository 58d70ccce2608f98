"""Counts live events without a valid signature, which are dropped, and limits how often readers get a hint."""

from __future__ import annotations

import logging
import time

log = logging.getLogger(__name__)

WARN_EVERY_S = 60.0
"""Seconds between two warnings."""
HINT_EVERY_S = 1.0
"""Seconds between two hints to a run's readers to query SQL, however many forged events arrive."""


class Forgeries:
    """Counts for one process. A dropped event may have been a genuine one that was damaged on its way."""

    def __init__(self) -> None:
        self.count = 0
        self._warned_at_s = float("-inf")
        self._hinted: dict[str, float] = {}

    def drop(self, where: str, size: int) -> None:
        """Count one, and warn at most once a minute; its content is never logged."""
        self.count += 1
        now_s = time.monotonic()
        if now_s - self._warned_at_s >= WARN_EVERY_S:
            self._warned_at_s = now_s
            log.warning(
                "dropped what no process of this deployment signed, %s so far, the last of %s bytes in %s; "
                "see who else may write to Redis, and that all processes share one database",
                self.count,
                size,
                where,
            )

    def should_hint(self, channel: str) -> bool:
        """Return whether the channel's readers should query SQL now."""
        now_s = time.monotonic()
        if now_s - self._hinted.get(channel, float("-inf")) < HINT_EVERY_S:
            return False
        self._hinted[channel] = now_s
        return True

    def forget(self, channel: str) -> None:
        """Drop what is kept of a channel that has no reader any more."""
        self._hinted.pop(channel, None)
