"""What decides how much work an expression is: its loops, its searches in texts, and the size of the values.

The library matches in time linear in the text, and in the positions of the pattern; and it looks for a text within
another in time that grows with the product of both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

MAX_POSITIONS = 1000
"""Repeats of a pattern that the library takes."""
SEARCHED_AT_ONCE = 100
"""Characters that are compared in the time of one that is matched."""
OVERHEAD = 8
"""What a value counts besides its characters."""

MACRO = re.compile(r"\b(all|exists|exists_one|map|filter)\s*\(")
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
    """Return whether something is looked for that is not a text of the expression itself."""
    return len(_CONTAINS.findall(bare)) > len(_LITERAL_CONTAINS.findall(bare))


def _positions(pattern: str) -> int:
    counts = [max(int(low), int(high or low)) for low, high in _REPEAT.findall(pattern)]
    if counts and _NESTED.search(pattern):
        return MAX_POSITIONS
    return min(MAX_POSITIONS, 1 + sum(counts))


def nesting_of(bare: str) -> int:
    """Return how deeply iterations are nested in a text without quoted parts."""
    opened: list[bool] = []
    deepest = 0
    starts = {match.end() - 1 for match in MACRO.finditer(bare)}
    for index, sign in enumerate(bare):
        if sign == "(":
            opened.append(index in starts)
            deepest = max(deepest, sum(opened))
        elif sign == ")" and opened:
            opened.pop()
    return deepest


def size_of(values: Mapping[str, Any]) -> tuple[int, int]:
    """Return the items in the lists and mappings of JSON data, and its size in characters."""
    items, chars = 0, 0
    waiting: list[Any] = [values]
    while waiting:
        value = waiting.pop()
        chars += OVERHEAD
        if isinstance(value, str):
            chars += len(value)
        elif isinstance(value, Mapping):
            items += len(value)
            chars += sum(map(len, value))
            waiting.extend(value.values())
        elif isinstance(value, list | tuple):
            items += len(value)
            waiting.extend(value)
    return items, chars


# --- texts


@dataclass(frozen=True, slots=True)
class Split:
    """An expression and its texts."""

    bare: str
    """The expression with an empty text ('') in place of each one."""
    patterns: tuple[str, ...]
    """The texts that are given to ``matches``, as they are written."""
    texts: tuple[str, ...]
    """All texts, as they are written, without the letters before them."""


def split_texts(source: str) -> Split:
    """Return the expression without its comments and texts; a text that is not closed reaches to the end."""
    bare: list[str] = []
    patterns: list[str] = []
    texts: list[str] = []
    at = 0
    while at < len(source):
        if source.startswith("//", at):
            end = source.find("\n", at)
            at = len(source) if end < 0 else end
            continue
        if source[at] not in "'\"":
            bare.append(source[at])
            at += 1
            continue
        raw = "".join(bare[-2:]).lower().rstrip().endswith("r") and _is_prefix(bare)
        end = _end_of(source, at, is_raw=raw)
        before = "".join(bare[-24:]).rstrip("rRbB").rstrip()
        if before.endswith("(") and before[:-1].rstrip().endswith("matches"):
            patterns.append(("r" if raw else "") + source[at:end])
        texts.append(source[at:end])
        bare.append("''")
        at = end
    return Split("".join(bare), tuple(patterns), tuple(texts))


def _is_prefix(bare: list[str]) -> bool:
    """Return whether the letters before a quote are the text's prefix, and not the end of a name."""
    before = "".join(bare[-4:]).rstrip("rRbB")
    return not before[-1:].isalnum() and not before.endswith("_")


def _end_of(source: str, begin: int, *, is_raw: bool) -> int:
    quote = source[begin] * 3 if source.startswith(source[begin] * 3, begin) else source[begin]
    at = begin + len(quote)
    while at < len(source):
        if source[at] == "\\" and not is_raw:
            at += 2
        elif source.startswith(quote, at):
            return at + len(quote)
        else:
            at += 1
    return len(source)
