"""One encoded event: its number, its type, and its JSON, which is encoded once and never parsed in between.

A cursor is the number of the last event that a reader has seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

import orjson

from bus.journal.errors import CURSOR_INVALID


class Line(NamedTuple):
    """An encoded event."""

    seq: int
    type: str
    data: bytes
    """The event as one line of JSON, without a line end."""

    @property
    def is_end(self) -> bool:
        """Whether this is the run's last event."""
        return self.type == "end"

    @property
    def is_waiting(self) -> bool:
        """Whether the run waits from this event on."""
        return self.type == "status" and b',"status":"waiting"' in self.data

    @property
    def stored_to(self) -> int:
        """Up to which number SQL has the log, where the line is a hint of that; 0 for events."""
        return int(self.data[len(_STORED) : -1]) if self.type == "stored" else 0

    @property
    def withdrawn_ranges(self) -> list[tuple[int, int]]:
        """The closed ranges of numbers that a ``withdrawn`` event declares; empty for other events."""
        if self.type != "withdrawn":
            return []
        try:
            return [(int(first), int(last)) for first, last in orjson.loads(self.data).get("ranges", [])]
        except (ValueError, TypeError):
            return []


_SEQ = b'{"seq":'
_TYPE = b',"type":"'
_STORED = b'{"seq":0,"type":"stored","upto":'
_EVENTS = re.compile(rb'^\{"seq":.*$', re.MULTILINE)
"""Lines that may be events. A million other lines cost 8 ms; to split the body into them costs 100."""


def to_line(data: bytes) -> Line:
    """Return the line of an encoded event.

    Raises:
        ValueError: these bytes are not an encoded event.
    """
    if not data.startswith(_SEQ):
        raise ValueError("not an event")
    start = data.index(_TYPE) + len(_TYPE)  # cannot stand inside a string: its quotes would be escaped
    return Line(int(data[7 : data.index(b",", 7)]), data[start : data.index(b'"', start)].decode(), data)


def stored_line(upto: int) -> bytes:
    """Return the hint that SQL has every event up to this number. It has the number 0, which no event has."""
    return b"%b%d}" % (_STORED, upto)


def pack(lines: Iterable[bytes]) -> bytes:
    """Return encoded events as one body."""
    return b"\n".join(lines)


def unpack(body: bytes) -> list[Line]:
    """Return the events of a body; other lines are left out."""
    lines = []
    for part in _EVENTS.findall(body):
        try:
            lines.append(to_line(part))
        except ValueError:
            continue
    return lines


def parse_cursor(text: str | None) -> int:
    """Return the number in a cursor; an empty or absent one is 0, the beginning.

    Raises:
        CURSOR_INVALID: it is not a number.
    """
    if text is None or text == "":
        return 0
    if not (text.isascii() and text.isdigit() and len(text) <= 19):
        raise CURSOR_INVALID(cursor=text[:200])
    return int(text)
