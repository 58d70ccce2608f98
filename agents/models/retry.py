"""The retry policy of model calls; the only retry layer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from config.errors import Retryable


@dataclass(frozen=True, kw_only=True, slots=True)
class RetryPolicy:
    """At most ``max_attempts`` calls, with exponential backoff and jitter."""

    max_attempts: int = 3
    """Calls in all, the first included."""
    base_s: float = 0.5
    """Shortest wait before the second attempt; it doubles with each attempt, and up to half is added as jitter."""
    cap_s: float = 60.0
    """Longest wait, even if the provider asks for more."""

    def allows(self, attempt: int, error: BaseException) -> bool:
        """Return whether another attempt may follow attempt number ``attempt`` (from 1), which raised ``error``."""
        return attempt < self.max_attempts and isinstance(error, Retryable)

    def delay_s(self, attempt: int, error: BaseException, random: Callable[[], float]) -> float:
        """Return the seconds to wait after attempt number ``attempt`` (from 1).

        The wait is what the provider asked for, plus up to a tenth of it as jitter, so that many callers do not retry
        at the same moment. ``random`` returns a number from 0 to 1.
        """
        asked = getattr(error, "retry_after_s", None)
        if asked is not None:
            return min(self.cap_s, float(asked) * (1.0 + 0.1 * random()))
        return min(self.cap_s, self.base_s * 2.0 ** (attempt - 1) * (1.0 + 0.5 * random()))
