"""The newest part of a conversation that fits the model's window; it is truncated at a stable boundary."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from zlib import crc32

from bus.journal.owner import HistoryItem, Past

STEADY_PART = 0.75
"""A truncated window has between this part of ``max_chars`` and all of it."""


class _Unit:
    """Messages that stay together: one message of the user, or an answer with the results of its calls."""

    __slots__ = ("chars", "checksum", "items")

    def __init__(self, item: HistoryItem, chars: int) -> None:
        self.items = [item]
        self.chars = chars
        self.checksum = crc32(item.id.encode())

    def add(self, item: HistoryItem, chars: int) -> None:
        self.items.append(item)
        self.chars += chars


class Window:
    """Keeps the newest messages of a conversation, at most ``max_chars`` of them.

    It is truncated only between units, never between a call and its results. The newest unit always stays, and where
    the boundary is inside a turn, the turn's user message stays in front, so that the message a run answers is always
    included.

    Providers cache the beginning of a prompt. A window that moved by a message at each step would never hit that cache,
    so its boundary is stable: among the units with which the window has between three quarters of the bound and all of
    it, the one whose id has the smallest checksum. It stays until the conversation has grown by about an eighth of the
    bound. It depends on the conversation alone: the next run, and an owner that takes over, choose the same boundary.
    """

    def __init__(self, past: Past, max_chars: int) -> None:
        self._max_chars = max_chars
        self._units: deque[_Unit] = deque()
        self._chars = 0
        self._sentence = past.sentence
        self.is_cut = not past.is_whole
        """Whether older messages were left out."""
        for item in past.items:
            self._append(item)
        self._trim()

    @property
    def items(self) -> Sequence[HistoryItem]:
        """The messages in reading order."""
        visible_items = [item for unit in self._units for item in unit.items]
        return visible_items if self._sentence is None else [self._sentence, *visible_items]

    def add(self, item: HistoryItem) -> None:
        """Add a message, and leave out the oldest ones that no longer fit."""
        self._append(item)
        self._trim()

    def _append(self, item: HistoryItem) -> None:
        chars = item.chars  # counted once: counting them writes the message as JSON
        if item.can_open or not (self._units or self.is_cut):
            self._units.append(_Unit(item, chars))
        elif self._units:
            self._units[-1].add(item, chars)
        else:
            return  # it belongs to a message that was left out
        self._chars += chars

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
        """Return the boundary as the class describes it; it never moves back."""
        chosen, left = None, self._chars
        for index, unit in enumerate(self._units):
            if left <= self._max_chars:
                if chosen is None:
                    chosen = index
                elif left < STEADY_PART * self._max_chars:
                    break
                elif unit.checksum < self._units[chosen].checksum:
                    chosen = index
            left -= unit.chars
        return max(len(self._units) - 1, 0) if chosen is None else chosen
