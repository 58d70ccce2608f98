"""The retry policy of model calls; the only retry layer."""

from __future__ import annotations

from collections.abc import Callable

from config.errors import Retryable

MAX_ATTEMPTS = 3
"""Calls in all, the first included."""
BASE_S = 0.5
"""Shortest wait before the second attempt; it doubles with each attempt, and up to half is added as jitter."""
CAP_S = 60.0
"""Longest wait, even if the provider asks for more."""


def may_retry(attempt: int, error: BaseException) -> bool:
    """Return whether another attempt may follow attempt number ``attempt`` (from 1), which raised ``error``."""
    return attempt < MAX_ATTEMPTS and isinstance(error, Retryable)


def retry_delay_s(attempt: int, error: BaseException, random: Callable[[], float]) -> float:
    """Return the seconds to wait after attempt number ``attempt`` (from 1).

    The wait is what the provider asked for, plus up to a tenth of it as jitter, so that many callers do not retry
    at the same moment. ``random`` returns a number from 0 to 1.
    """
    delay_s = getattr(error, "retry_after_s", None)
    if delay_s is not None:
        return min(CAP_S, float(delay_s) * (1.0 + 0.1 * random()))
    return min(CAP_S, BASE_S * 2.0 ** (attempt - 1) * (1.0 + 0.5 * random()))
