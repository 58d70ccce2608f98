"""The newest part of a conversation that fits: what of a thread the model is shown."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from zlib import crc32

from bus.journal.threads import OPENING_ROLES, HistoryItem, Past, chars_of

STEADY_PART = 0.75
"""A window that had to be cut begins somewhere between its bound and this part of it."""


class _Unit:
    """Messages that stay together: one of the user, or an answer with the results of its calls."""

    __slots__ = ("chars", "items", "lot")

    def __init__(self, item: HistoryItem) -> None:
        self.items = [item]
        self.chars = chars_of(item)
        self.lot = crc32(item.id.encode())

    def add(self, item: HistoryItem) -> None:
        self.items.append(item)
        self.chars += chars_of(item)


class Window:
    """Keeps the newest messages, at most ``max_chars`` of them, however many are added.

    It is cut only where a conversation can begin: never between a call and its results. The newest unit stays
    whatever its length, and where the cut falls inside a turn that turn's own sentence stays in front, so the
    sentence a run answers is always there.

    Providers keep the beginning of a prompt in a cache. A window that moved by a message at each step would
    never be found there, so its beginning is chosen by lot, among the units with which the window has between
    three quarters of the bound and all of it: the one whose id has the smallest checksum. It stays until the
    conversation has grown by about an eighth of the bound. It depends on the conversation alone: the next run,
    and an owner that takes over, begin at the same message.
    """

    def __init__(self, past: Past, max_chars: int) -> None:
        self._max_chars = max_chars
        self._units: deque[_Unit] = deque()
        self._chars = 0
        self._sentence = past.sentence
        self.is_cut = not past.is_whole
        """Whether the conversation is longer than this may be."""
        for item in past.items:
            self._append(item)
        self._trim()

    @property
    def items(self) -> Sequence[HistoryItem]:
        """The messages in reading order."""
        shown = [item for unit in self._units for item in unit.items]
        return shown if self._sentence is None else [self._sentence, *shown]

    def add(self, item: HistoryItem) -> None:
        """Add a message behind the others, and let go of what no longer fits."""
        self._append(item)
        self._trim()

    def _append(self, item: HistoryItem) -> None:
        if item.role in OPENING_ROLES or not (self._units or self.is_cut):
            self._units.append(_Unit(item))
            self._chars += self._units[-1].chars
        elif self._units:  # else it belongs to something that was left out
            self._chars -= self._units[-1].chars
            self._units[-1].add(item)
            self._chars += self._units[-1].chars

    def _trim(self) -> None:
        if not self.is_cut and self._chars <= self._max_chars:
            return
        for _ in range(self._first_shown()):
            gone = self._units.popleft()
            self._chars -= gone.chars
            self.is_cut = True
            if gone.items[0].role == "user":
                self._sentence = gone.items[0]
        if self._units and self._units[0].items[0].role == "user":
            self._sentence = None

    def _first_shown(self) -> int:
        """Return where the window begins: see the class. It never moves back."""
        chosen, left = None, self._chars
        for place, unit in enumerate(self._units):
            if left <= self._max_chars:
                if chosen is None:
                    chosen = place
                elif left < STEADY_PART * self._max_chars:
                    break
                elif unit.lot < self._units[chosen].lot:
                    chosen = place
            left -= unit.chars
        return max(len(self._units) - 1, 0) if chosen is None else chosen
