"""A page of a run's frames, made once and shared by every viewer that reads it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bus.journal.pages import PAGE_BYTES
from web.sse import Frame

NEAR_EVENTS = 100
SLICE_BYTES = 64 * 1024


class Page:
    """Frames in order, and the slices in which they are written."""

    __slots__ = ("__weakref__", "frames", "is_near", "size", "slices")

    def __init__(self, frames: Sequence[Frame]) -> None:
        self.frames = frames
        self.slices = list(_slices(frames))
        """Pieces of about 64 KiB, or one larger frame, each with its last number."""
        self.size = sum(len(data) for _, data in frames)
        """In bytes; slices of joined frames come on top and are at most a megabyte."""
        self.is_near = len(frames) < NEAR_EVENTS and self.size < PAGE_BYTES
        """Whether nothing is behind it but what is being said just now."""

    @property
    def is_over(self) -> bool:
        """Whether it ends with the run's end."""
        return bool(self.frames) and self.frames[-1][1].startswith(b"event: end\n")


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
