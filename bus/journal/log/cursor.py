"""Cursors: the number of the last event that a reader has seen."""

from __future__ import annotations

from bus.journal.errors import CursorInvalid


def parse_cursor(text: str | None) -> int:
    """Return the number in a cursor; an empty or absent one is 0, the beginning.

    Raises:
        CursorInvalid: it is not a number.
    """
    if text is None or text == "":
        return 0
    if not (text.isascii() and text.isdigit() and len(text) <= 19):
        raise CursorInvalid(cursor=text[:200])
    return int(text)
