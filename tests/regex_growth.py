"""Finds what makes a regular expression slower than linear: repeats that can share one run of characters.

Three forms count. *Adjacent*: two unbounded repeats that can divide a run between them, before something that may fail.
*Nested*: an unbounded repeat of a body that is adjacent to itself. *Restart*: an unbounded repeat that a search enters
again at each character of the run it has just failed on. The analysis is an approximation over ASCII; it sees
through groups and branches, and takes look-arounds as conditions that may fail.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from re import _constants as op  # type: ignore[attr-defined]  # no public parser
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

ALPHABET = frozenset(range(128))
MANY = 1000
"""From here on a bounded repeat counts as unbounded."""
_WORD = frozenset(ord(char) for char in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_CATEGORIES = {
    op.CATEGORY_DIGIT: frozenset(range(48, 58)),
    op.CATEGORY_SPACE: frozenset(b" \t\n\r\f\v"),
    op.CATEGORY_WORD: _WORD,
}
_CATEGORIES |= {
    op.CATEGORY_NOT_DIGIT: ALPHABET - _CATEGORIES[op.CATEGORY_DIGIT],
    op.CATEGORY_NOT_SPACE: ALPHABET - _CATEGORIES[op.CATEGORY_SPACE],
    op.CATEGORY_NOT_WORD: ALPHABET - _WORD,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Atom:
    """Characters of one set, so often; or a condition, which takes none."""

    chars: frozenset[int] = frozenset()
    least: int = 1
    most: int = 1
    possessive: bool = False
    condition: str = ""
    """``start``, ``line`` (its start), ``boundary`` or ``other``."""

    @property
    def is_unbounded(self) -> bool:
        return self.most >= MANY

    @property
    def may_fail(self) -> bool:
        return bool(self.condition) or self.least > 0


Path = tuple[Atom, ...]
_MOST_PATHS = 400


def problems(pattern: str, flags: int = 0, *, searched: bool = True, whole: bool = False) -> list[str]:
    """Return what makes the pattern slow: ``searched`` anywhere in a text, or to match the ``whole`` of it."""
    tree = parser.parse(pattern, flags)
    finder = _Finder(tree.state.flags)
    reasons: set[str] = set(finder.nested(tree))
    for path in finder.paths(tree):
        full = (*path, Atom(condition="other")) if whole else path
        if _adjacent(full):
            reasons.add("adjacent repeats")
        if searched and _restarts(full):
            reasons.add("a search restarts in its run")
    return sorted(reasons)


class _Finder:
    def __init__(self, flags: int) -> None:
        self._flags = flags

    def nested(self, items: Any) -> Iterator[str]:
        """Yield a problem for each unbounded repeat whose body can share a run with the next time round."""
        for kind, value in items:
            if kind in (op.MAX_REPEAT, op.MIN_REPEAT) and value[1] >= MANY:
                bodies = self.paths(value[2])
                if any(_adjacent((*body, *other, Atom(condition="other"))) for body in bodies for other in bodies):
                    yield "nested repeats"
            for inner in _inner(kind, value):
                yield from self.nested(inner)

    def paths(self, items: Any) -> list[Path]:
        """Return the ways through a sequence; beyond a number of ways, the first ones."""
        prefixes: list[Path] = [()]
        for kind, value in items:
            prefixes = [(*path, *more) for path in prefixes for more in self._ways(kind, value)][:_MOST_PATHS]
        return prefixes

    def _ways(self, kind: Any, value: Any) -> list[Path]:
        if kind in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
            return self._repeat(kind, *value)
        if kind is op.SUBPATTERN:
            before, self._flags = self._flags, (self._flags | value[1]) & ~value[2]
            ways = self.paths(value[3])
            self._flags = before
            return ways
        if kind is op.BRANCH:
            return [path for branch in value[1] for path in self.paths(branch)]
        if kind is op.ATOMIC_GROUP:
            return self.paths(value)
        if kind is op.AT:
            return [(Atom(condition=self._place(value)),)]
        if kind in (op.ASSERT, op.ASSERT_NOT):
            return [(Atom(condition="other"),)]
        return [(Atom(chars=self._chars(kind, value)),)]

    def _place(self, value: Any) -> str:
        if value is op.AT_BEGINNING and self._flags & re.MULTILINE:
            return "line"
        if value in (op.AT_BEGINNING, op.AT_BEGINNING_STRING):
            return "start"
        return "boundary" if value is op.AT_BOUNDARY else "other"

    def _repeat(self, kind: Any, least: int, most: int, body: Any) -> list[Path]:
        possessive = kind is op.POSSESSIVE_REPEAT
        ways = self.paths(body)
        singles = [path[0] for path in ways if len(path) == 1 and not path[0].condition and path[0].most == 1]
        if len(singles) == len(ways):
            chars = frozenset().union(*(atom.chars for atom in singles))
            return [(Atom(chars=chars, least=int(least), most=int(most), possessive=possessive),)]
        if most == 1:
            return [*ways, ()] if least == 0 else ways
        # A repeat of something longer is a run of all its characters; what happens inside is for ``nested``.
        chars = frozenset().union(*(atom.chars for path in ways for atom in path))
        separators = [[atom for atom in path if atom.least and not atom.is_unbounded] for path in ways]
        return [
            (Atom(chars=chars, least=int(least), most=int(most), possessive=possessive or all(separators)),),
        ]

    def _chars(self, kind: Any, value: Any) -> frozenset[int]:
        if kind is op.LITERAL:
            return self._folded({value})
        if kind is op.NOT_LITERAL:
            return ALPHABET - self._folded({value})
        if kind is op.ANY:
            return ALPHABET if self._flags & re.DOTALL else ALPHABET - {10}
        if kind is op.IN:
            return self._class(value)
        return ALPHABET

    def _class(self, items: Sequence[Any]) -> frozenset[int]:
        chars: set[int] = set()
        for kind, value in items:
            if kind is op.LITERAL:
                chars.add(value)
            elif kind is op.RANGE:
                chars.update(range(value[0], min(value[1], 127) + 1))
            elif kind is op.CATEGORY:
                chars |= _CATEGORIES.get(value, ALPHABET)
        folded = self._folded(chars)
        return ALPHABET - folded if items[0][0] is op.NEGATE else folded

    def _folded(self, chars: set[int]) -> frozenset[int]:
        if not self._flags & re.IGNORECASE:
            return frozenset(chars)
        return frozenset(
            code for char in chars if char < 128 for code in (ord(chr(char).lower()), ord(chr(char).upper()))
        )


def _inner(kind: Any, value: Any) -> list[Any]:
    if kind in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
        return [value[2]]
    if kind is op.SUBPATTERN:
        return [value[3]]
    if kind is op.BRANCH:
        return list(value[1])
    if kind is op.ATOMIC_GROUP:
        return [value]
    return [value[1]] if kind in (op.ASSERT, op.ASSERT_NOT) else []


def _adjacent(path: Path) -> bool:
    """Return whether two repeats can divide a run between them before something that may fail."""
    for position, first in enumerate(path):
        if not first.is_unbounded or first.possessive:
            continue
        for later in range(position + 1, len(path)):
            atom = path[later]
            if atom.is_unbounded and first.chars & atom.chars and any(rest.may_fail for rest in path[later + 1 :]):
                return True
            if atom.condition or (atom.least and not first.chars & atom.chars):
                break
    return False


def _restarts(path: Path) -> bool:
    """Return whether a search can enter an unbounded repeat again inside the run on which it failed."""
    for position, atom in enumerate(path):
        before = path[:position]
        if any(part.condition == "start" for part in before):
            return False
        if not atom.is_unbounded or not any(rest.may_fail for rest in path[position + 1 :]):
            continue
        if any(part.condition == "line" for part in before) and 10 not in atom.chars:
            continue
        at_boundary = any(part.condition == "boundary" for part in before)
        if at_boundary and len(before) == 1 and (atom.chars <= _WORD or not atom.chars & _WORD):
            continue
        if all(part.chars & atom.chars for part in before if part.least and not part.condition):
            return True
    return False
