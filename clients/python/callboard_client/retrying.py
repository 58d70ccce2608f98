"""How long the client waits, and when it tries again."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

import httpx

from callboard_client.errors import CallboardError

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 2.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Timeouts:
    """Seconds after which the client gives up."""

    connect_s: float = 5.0
    """For a connection to be made."""
    answer_s: float = 30.0
    """For the answer to a request; a server that is slower counts as unreachable."""
    idle_s: float = 40.0
    """For a sign of life on a stream, on which the server sends one every 15 s; then the stream is resumed."""
    retry_s: float = 15.0
    """For which a request is repeated while the server is unreachable or has no room."""
    resume_s: float = 120.0
    """For which a stream that was open is resumed while the server is unreachable or has no room."""

    def of_request(self) -> httpx.Timeout:
        """Return the limits of one request."""
        return httpx.Timeout(self.answer_s, connect=self.connect_s)

    def of_stream(self, most_s: float | None) -> httpx.Timeout:
        """Return the limits of one connection to a stream, none of them above ``most_s``."""
        idle_s, connect_s = (min(s, most_s) if most_s is not None else s for s in (self.idle_s, self.connect_s))
        return httpx.Timeout(idle_s, connect=connect_s)


class Patience:
    """Counts failed attempts, and says how long to pause before the next one."""

    def __init__(self, patience_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures = 0
        self.extend(patience_s)

    def extend(self, patience_s: float) -> None:
        """Wait for so long from now: the server answered."""
        self._until = self._clock() + patience_s

    def progressed(self) -> None:
        """Begin with short pauses again: an attempt brought something."""
        self._failures = 0

    def pause_s(self, error: CallboardError) -> float:
        """Return how long to pause before the next attempt.

        Raises:
            CallboardError: ``error`` itself, where another attempt makes no sense or comes too late.
        """
        if not error.retryable:
            raise error
        most_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**self._failures)
        self._failures = min(self._failures + 1, 10)
        # Spread, so that the clients of a restarted server do not come back all at once.
        pause_s = max(error.retry_after_s or 0.0, random.uniform(most_s / 2, most_s))
        if self._clock() + pause_s > self._until:
            raise error
        return pause_s
