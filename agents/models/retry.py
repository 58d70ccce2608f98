"""When a failed model call is tried again, and after how long. The only retry layer there is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from config.errors import Retryable


@dataclass(frozen=True, kw_only=True, slots=True)
class RetryPolicy:
    """At most ``max_attempts`` calls, with growing waits between them."""

    max_attempts: int = 3
    """Calls in all, the first included."""
    base_s: float = 0.5
    """Shortest wait before the second attempt; it doubles with each, and up to a half is added by chance."""
    cap_s: float = 60.0
    """Longest wait, also where the provider asks for more."""

    def allows(self, attempt: int, error: BaseException) -> bool:
        """Return whether another attempt may follow attempt number ``attempt`` (from 1), which failed so."""
        return attempt < self.max_attempts and isinstance(error, Retryable)

    def delay_s(self, attempt: int, error: BaseException, random: Callable[[], float]) -> float:
        """Return the seconds to wait after attempt number ``attempt`` (from 1).

        What the provider asked for is kept, and up to a tenth added, so that many callers it sent away
        together do not come back together. ``random`` returns a number from 0 to 1.
        """
        asked = getattr(error, "retry_after_s", None)
        if asked is not None:
            return min(self.cap_s, float(asked) * (1.0 + 0.1 * random()))
        return min(self.cap_s, self.base_s * 2.0 ** (attempt - 1) * (1.0 + 0.5 * random()))
