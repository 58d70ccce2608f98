"""Identifiers that sort by the time they were made."""

from __future__ import annotations

import os
import time

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


def new_id(prefix: str) -> str:
    """Return ``prefix_`` and 26 characters: 48 bits of milliseconds, 80 bits of randomness (a ULID)."""
    value = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10))
    letters = []
    for _ in range(26):
        letters.append(_ALPHABET[value & 31])
        value >>= 5
    return f"{prefix}_{''.join(reversed(letters))}"
