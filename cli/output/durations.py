"""Durations: how long a run took, as the page writes it (web/static/dom/format.js), and what people write: ``90s``."""

from __future__ import annotations

import re

from config.clock import epoch_ms, ms_of
from config.errors import BadRequest

MIN_WAIT_MS = 1000
MIN_WAIT_SHARE = 0.1
"""A run that waited for less of its time is described by the whole alone."""


def took(duration_ms: int, work_ms: int | None) -> str:
    """Return ``4.2 s``, or ``2 min 03 s, 5.0 s at work`` where the run waited for most of the time, or some of it."""
    whole = lasting(duration_ms)
    if work_ms is None or duration_ms - work_ms < max(MIN_WAIT_MS, MIN_WAIT_SHARE * duration_ms):
        return whole
    return f"{whole}, {lasting(work_ms)} at work"


def lasting(ms: int) -> str:
    """Return ``0.3 s``, ``2 min 03 s``, ``2 h 05 min`` or ``3 d``."""
    if ms < 59_950:
        return f"{ms / 1000:.1f} s"
    minutes, seconds = divmod(ms // 1000, 60)
    if not minutes:
        return f"{seconds} s"
    if minutes < 60:
        return f"{minutes} min {seconds:02} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours < 48 else f"{hours // 24} d"


def age(stamped: str) -> str:
    """Return how long ago a stamp is, as ``8s``, ``5m``, ``3h``, ``12d`` or ``2y``; of a time ahead ``in 5m``."""
    past_s = (epoch_ms() - ms_of(stamped)) // 1000
    seconds, ahead = abs(past_s), "in " if past_s < 0 else ""
    for unit, size, until in (("s", 1, 100), ("m", 60, 100), ("h", 3600, 48), ("d", 86_400, 730)):
        if seconds < size * until:
            return f"{ahead}{seconds // size}{unit}"
    return f"{ahead}{seconds // 31_557_600}y"


SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def seconds_of(text: str) -> int:
    """Return a duration in seconds.

    Raises:
        BadRequest: it is not a number with a unit, or is zero.
    """
    match = re.fullmatch(r"([1-9][0-9]{0,5})([smhd])", text, re.ASCII)
    if match is None:
        raise BadRequest(f"'{text[:40]}' is not a duration; write a number and s, m, h or d, such as 30d.")
    return int(match[1]) * SECONDS[match[2]]
