"""One event as it travels: its number, its type, and its JSON, which is made once and never parsed on the way."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import orjson


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


_SEQ = b'{"seq":'
_TYPE = b',"type":"'


def to_line(data: bytes) -> Line:
    """Return the line of an encoded event.

    Raises:
        ValueError: these bytes are not an event of ours.
    """
    if not data.startswith(_SEQ):
        raise ValueError("not an event")
    start = data.index(_TYPE) + len(_TYPE)  # cannot stand inside a string: its quotes would be escaped
    return Line(int(data[7 : data.index(b",", 7)]), data[start : data.index(b'"', start)].decode(), data)


def pack(lines: Iterable[bytes]) -> bytes:
    """Return encoded events as one body."""
    return b"\n".join(lines)


def unpack(body: bytes) -> list[Line]:
    """Return the events of a body; what is not one (a stranger published it) is left out."""
    lines = []
    for part in body.split(b"\n"):
        if not part.startswith(_SEQ):
            continue
        try:
            lines.append(to_line(part))
        except ValueError:
            continue
    return lines


def withdrawn_ranges(line: Line) -> list[tuple[int, int]]:
    """Return the closed ranges a ``withdrawn`` event names; nothing for any other."""
    if line.type != "withdrawn":
        return []
    try:
        return [(int(first), int(last)) for first, last in orjson.loads(line.data).get("ranges", [])]
    except (ValueError, TypeError):
        return []
