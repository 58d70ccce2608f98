"""Clocks: wall time for people, boot time for leases on one machine."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path


def utc_now() -> datetime:
    """Return the aware UTC time."""
    return datetime.now(UTC)


@lru_cache(maxsize=4)
def _second(epoch_s: int) -> str:
    return datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def stamp(epoch_ms: int | None = None) -> str:
    """Return milliseconds since 1970 (default: now) as ``2026-11-20T12:00:00.123Z``."""
    if epoch_ms is None:
        epoch_ms = time.time_ns() // 1_000_000
    seconds, millis = divmod(epoch_ms, 1000)
    return f"{_second(seconds)}.{millis:03d}Z"


def ms_of(text: str) -> int:
    """Return a time of UTC, such as ``2026-11-01`` or ``2026-11-01T09:30:00Z``, in milliseconds since 1970.

    Raises:
        ValueError: there is no such time.
    """
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def epoch_ms() -> int:
    """Return milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def boot_ms() -> int:
    """Return milliseconds on a clock that cannot be set and that counts while the machine sleeps."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return (time.clock_gettime_ns(clock) if clock is not None else time.monotonic_ns()) // 1_000_000


@lru_cache(maxsize=1)
def boot_id() -> str:
    """Return the id of this machine's boot; a lease of an earlier boot has expired."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return f"{round((time.time_ns() - time.monotonic_ns()) / 1e10)}"
