"""Identifiers that sort by their creation time."""

from __future__ import annotations

import os
import re
import time

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = tuple(a + b for a in _ALPHABET for b in _ALPHABET)
_SHIFTS = tuple(range(120, -10, -10))


def new_id(prefix: str) -> str:
    """Return ``prefix_`` and 26 characters: 48 bits of milliseconds, 80 bits of randomness (a ULID)."""
    value = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10))
    return f"{prefix}_{''.join([_PAIRS[value >> shift & 1023] for shift in _SHIFTS])}"


def is_made(prefix: str, text: str) -> bool:
    """Return whether a text has the form of the ids that ``new_id`` makes with this prefix."""
    return re.fullmatch(rf"{prefix}_[{_ALPHABET}]{{26}}", text) is not None
