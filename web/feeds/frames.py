"""The format of an event in a stream of server-sent events."""

from __future__ import annotations

from bus.journal import Line

RETRY = b"retry: 2000\n"
"""Sent first: a line of the first event's block, since clients exist that dispatch a block without data."""
BEAT = b":\n"
"""A comment in the next event's block; an empty line after it would end the block."""

Frame = tuple[int, bytes]
"""An event's number and its bytes, ready to be written."""


def frame(line: Line) -> bytes:
    """Return an event's frame. JSON has no raw line ends; those of a forged line are escaped.

    The id comes last, so that a client that dispatches an incomplete frame keeps its cursor before it.
    """
    if b"\r" in line.data or "\r" in line.type:
        return frame(Line(line.seq, line.type.replace("\r", " "), line.data.replace(b"\r", b" ")))
    return b"event: %s\ndata: %s\nid: %d\n\n" % (line.type.encode(), line.data, line.seq)
