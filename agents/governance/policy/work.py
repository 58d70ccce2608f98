"""How much work a condition's searches in texts are, for each character of the arguments: an upper bound.

The library matches in time linear in the text, and in the positions of the pattern; and it looks for a text within
another in time that grows with the product of both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

MAX_POSITIONS = 1000
"""Repeats of a pattern that the library takes."""
SEARCHED_AT_ONCE = 100
"""Characters that are compared in the time of one that is matched."""

_MATCHES = re.compile(r"\bmatches\s*\(")
_LITERAL_MATCHES = re.compile(r"\.\s*matches\s*\(\s*''\s*\)")
_CONTAINS = re.compile(r"\bcontains\s*\(")
_LITERAL_CONTAINS = re.compile(r"\bcontains\s*\(\s*''\s*\)")
_REPEAT = re.compile(r"\{([0-9]{1,6})(?:,([0-9]{0,6}))?\}")
_NESTED = re.compile(r"\)\{")


def positions_of(bare: str, patterns: Iterable[str]) -> int:
    """Return the most positions that matching has for a character; ``bare`` has no texts."""
    if len(_MATCHES.findall(bare)) > len(_LITERAL_MATCHES.findall(bare)):
        return MAX_POSITIONS  # the pattern is put together, or an argument
    return max(map(_positions, patterns), default=1)


def has_search(bare: str) -> bool:
    """Return whether something is looked for that is not a text of the condition itself."""
    return len(_CONTAINS.findall(bare)) > len(_LITERAL_CONTAINS.findall(bare))


def _positions(pattern: str) -> int:
    counts = [max(int(low), int(high or low)) for low, high in _REPEAT.findall(pattern)]
    if counts and _NESTED.search(pattern):
        return MAX_POSITIONS
    return min(MAX_POSITIONS, 1 + sum(counts))
