"""Text that arrives in pieces and is released only where the cut splits no secret."""

from __future__ import annotations

from collections.abc import Callable

HELD_CHARS = 256
"""Characters kept back: what follows them may show that they belong to a secret."""
STEP_CHARS = 256
"""Characters gathered before another cut is tried."""
MAX_CHARS = 65_536
"""Characters held at most; a message that offers no cut until then is cut anyway."""


class HeldText:
    """Gathers the pieces of one message; ``add`` and ``rest`` return redacted text."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        self._redact = redact
        self._text = ""
        self._next = HELD_CHARS + STEP_CHARS

    def add(self, piece: str) -> str:
        """Keep the piece, and return what can be written by now, often nothing."""
        self._text += piece
        if len(self._text) < self._next:
            return ""
        if len(self._text) > MAX_CHARS:
            return self.rest()
        # Twice as far the next time: a text that offers no cut would be examined again for each step.
        self._next = max(2 * len(self._text), len(self._text) + STEP_CHARS)
        return self._cut()

    def rest(self) -> str:
        """Return all that is left; nothing is held afterwards."""
        text, self._text = self._text, ""
        self._next = HELD_CHARS + STEP_CHARS
        return self._redact(text)

    def _cut(self) -> str:
        at = _last_blank(self._text, len(self._text) - HELD_CHARS)
        head, tail = self._text[:at], self._text[at:]
        safe = self._redact(head)
        # A secret across the cut shows in the whole and not in the parts. Of a key in a PEM block only
        # the first line is certain to be recognised before its last line has come.
        if not head or _in_pem(head) or safe + self._redact(tail) != self._redact(self._text):
            return ""
        self._text = tail
        self._next = len(tail) + STEP_CHARS
        return safe


def _last_blank(text: str, end: int) -> int:
    """Return the place behind the last blank or line end before ``end``, or 0."""
    return max(text.rfind(" ", 0, end), text.rfind("\n", 0, end)) + 1


def _in_pem(text: str) -> bool:
    return text.rfind("-----BEGIN ") > text.rfind("-----END ")
