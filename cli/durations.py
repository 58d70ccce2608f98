"""Durations as people write them: ``90s``, ``15m``, ``12h``, ``30d``."""

from __future__ import annotations

import re

from config.errors import BadRequest

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
