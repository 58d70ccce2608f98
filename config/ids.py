"""Identifiers that sort by their creation time, and digests that stand for content."""

from __future__ import annotations

import hashlib
import os
import re
import time
from functools import lru_cache
from typing import Any

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
"""The characters of an id behind its prefix."""
_CHARS = (ALPHABET * 8).encode()
"""A character of the alphabet for each byte; each one for eight of them."""
_RANDOM_CHARS = 16
_TIME_SHIFTS = range(45, -5, -5)


def new_id(prefix: str) -> str:
    """Return ``prefix_`` and 26 characters: 48 bits of milliseconds, 80 bits of randomness (a ULID)."""
    random = os.urandom(_RANDOM_CHARS).translate(_CHARS).decode()
    return f"{prefix}_{_time(time.time_ns() // 1_000_000)}{random}"


@lru_cache(maxsize=1)
def _time(ms: int) -> str:
    return "".join([ALPHABET[ms >> shift & 31] for shift in _TIME_SHIFTS])


def is_made(prefix: str, text: str) -> bool:
    """Return whether a text has the form of the ids that ``new_id`` makes with this prefix."""
    return re.fullmatch(rf"{prefix}_[{ALPHABET}]{{26}}", text) is not None


def canonical_digest(content: Any) -> str:
    """Return the SHA-256 of ``content`` as canonical JSON: keys sorted, no blanks."""
    import orjson  # most modules need an id alone

    return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()
