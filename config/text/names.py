"""Names in sentences: suggestions for mistyped ones, and the names of calls, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

LONGEST_NAME = 80
"""Longest text, in characters, for which a name is suggested."""


MOST_EDITS = 3


def nearest(word: str, names: Iterable[str]) -> str | None:
    """Return the most similar known name, or None where it takes more than one edit per three characters."""
    if len(word) > LONGEST_NAME:
        return None
    alike = (name for name in names if abs(len(name) - len(word)) <= MOST_EDITS)
    distances = [(_edits(word.lower(), name.lower()), name) for name in alike]
    edits, name = min(distances, default=(LONGEST_NAME, ""))
    return name if edits <= min(MOST_EDITS, max(1, len(name) // 3)) and edits < len(word) else None


def _edits(word: str, name: str) -> int:
    """Return the Damerau-Levenshtein distance: insertions, deletions, substitutions and swaps of neighbours."""
    before: list[int] = []
    row = list(range(len(name) + 1))
    for i, mine in enumerate(word):
        older, before, row = before, row, [i + 1]
        for j, theirs in enumerate(name):
            row.append(min(before[j + 1] + 1, row[j] + 1, before[j] + (mine != theirs)))
            if i and j and mine == name[j - 1] and word[i - 1] == theirs:
                row[-1] = min(row[-1], older[j - 1] + 1)
    return row[-1]


def did_you_mean(word: str, names: Iterable[str], prefix: str = "") -> str:
    """Return `` Did you mean 'x'?`` with a leading space, or an empty text.

    ``prefix`` is what all names begin with: it is not compared, since it would make any two of them similar.
    """
    match = nearest(word.removeprefix(prefix), (name.removeprefix(prefix) for name in names))
    return f" Did you mean '{prefix}{match}'?" if match else ""


def counted_names(names: Iterable[str]) -> list[str]:
    """Return each name once, in the order of the calls; several calls of one as ``2 calls of order_supplies``."""
    return [name if number == 1 else f"{number} calls of {name}" for name, number in Counter(names).items()]
