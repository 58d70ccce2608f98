"""Events as frames of a stream of server-sent events, and pages of them, made once for every viewer that reads them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from bus.journal.readers import PAGE_BYTES, Line

if TYPE_CHECKING:
    from bus.journal import Journal

RETRY = b"retry: 2000\n"
"""Sent first: a line of the first event's block, since clients exist that dispatch a block without data."""
BEAT = b":\n"
"""A comment in the next event's block; an empty line after it would end the block."""
READS_AT_ONCE = 1
"""Pages read from SQL, and large ones built, at once: each temporarily takes about four times its size."""
PAGES_AT_ONCE = 16
"""Pages under way at once: all but the one being read are small (``SMALL_BYTES``) and wait for the hot log."""
SMALL_BYTES = 256 * 1024
"""Bytes up to which the SQL part of a page may wait for the hot log while others are read."""
NEAR_EVENTS = 100
SLICE_BYTES = 64 * 1024

Frame = tuple[int, bytes]
"""An event's number and its bytes, ready to be written."""


def frame(line: Line) -> bytes:
    """Return an event's frame. JSON has no raw line ends; those of a forged line are escaped.

    The id comes last, so that a client that dispatches an incomplete frame keeps its cursor before it.
    """
    if b"\r" in line.data or "\r" in line.type:
        return frame(Line(line.seq, line.type.replace("\r", " "), line.data.replace(b"\r", b" ")))
    return b"event: %s\ndata: %s\nid: %d\n\n" % (line.type.encode(), line.data, line.seq)


class Page:
    """Frames in order, and the slices in which they are written."""

    __slots__ = ("__weakref__", "frames", "is_near", "size", "slices")

    def __init__(self, frames: Sequence[Frame], *, has_more: bool) -> None:
        self.frames = frames
        self.slices = list(_slices(frames))
        """Pieces of about 64 KiB, or one larger frame, each with its last number."""
        self.size = sum(len(data) for _, data in frames)
        """In bytes; slices of joined frames come on top and are at most a megabyte."""
        is_far = has_more or len(frames) >= NEAR_EVENTS or self.size >= PAGE_BYTES
        self.is_near = not (frames and is_far)
        """Whether a viewer can join the live feed from here: only live events follow, or the page is empty because the
        event that declares the gap before it is in a later page."""

    @property
    def is_over(self) -> bool:
        """Whether it ends with the run's end."""
        return bool(self.frames) and self.frames[-1][1].startswith(b"event: end\n")


class PageReader:
    """Reads pages for all feeds of a process, on the loop."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._under_way = asyncio.Semaphore(PAGES_AT_ONCE)
        self._reading = asyncio.Semaphore(READS_AT_ONCE)

    async def read(self, tenant: str, run_id: str, thread_id: str, cursor: int) -> Page:
        """Return the page of the run's events behind ``cursor``, stored and live ones merged."""
        async with self._under_way:
            async with self._reading:
                stored, has_more = await self._journal.loop.read(self._journal.readers.page, run_id, thread_id, cursor)
                if sum(len(line.data) for line in stored) >= SMALL_BYTES:
                    return await self._merged(tenant, run_id, cursor, stored, has_more)
            return await self._merged(tenant, run_id, cursor, stored, has_more)

    async def _merged(self, tenant: str, run_id: str, cursor: int, stored: list[Line], has_more: bool) -> Page:
        lines = await self._journal.readers.with_live(tenant, run_id, cursor, stored, has_more=has_more)
        return Page([(line.seq, frame(line)) for line in lines], has_more=has_more)


def _slices(frames: Sequence[Frame]) -> Iterator[tuple[bytes, int]]:
    """Yield the frames joined into pieces; a large frame is a piece of its own, since joining would copy it."""
    piece: list[bytes] = []
    size = last = 0
    for number, data in frames:
        if piece and size + len(data) > SLICE_BYTES:
            yield b"".join(piece), last
            piece, size = [], 0
        piece.append(data)
        size, last = size + len(data), number
    if piece:
        yield b"".join(piece), last
