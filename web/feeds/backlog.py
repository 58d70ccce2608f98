"""Limits the memory of all viewers together: the bytes that are to be sent to them and that they have not read."""

from __future__ import annotations

import logging
from typing import Protocol

log = logging.getLogger(__name__)

MAX_BYTES = 12 * 1024 * 1024


class CountedViewer(Protocol):
    """A viewer, as the backlog sees it."""

    stuck_since: float
    """Since when it has not been reading, on the loop's clock; 0 while it does."""

    @property
    def log_fields(self) -> dict[str, str | None]:
        """The fields of a log record about it."""

    def drop(self) -> None:
        """Close its connection."""


class Backlog:
    """Counts each object once, however many viewers share it, and drops the viewers that have not read for longest.

    Only what exceeds a viewer's own buffer is counted; web/feeds/viewers.py limits the buffer.
    A viewer that is dropped resumes by its cursor. Lives on the loop.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._held: dict[CountedViewer, int] = {}
        self._shared: dict[int, tuple[object, int, int]] = {}
        """By identity: the object, its size in bytes, and how many viewers hold it."""
        self.size = 0

    def hold(self, viewer: CountedViewer, sent: object, size: int) -> None:
        """Count what the viewer has not read yet, in place of what it held before."""
        self.release(viewer)
        _, _, holders = self._shared.get(id(sent), (sent, size, 0))
        self._shared[id(sent)] = sent, size, holders + 1
        self._held[viewer] = id(sent)
        self.size += 0 if holders else size
        self._drop_slowest()

    def release(self, viewer: CountedViewer) -> None:
        """Forget the viewer's object: it has read it, or disconnected."""
        key = self._held.pop(viewer, None)
        if key is None:
            return
        sent, size, holders = self._shared.pop(key)
        if holders > 1:
            self._shared[key] = sent, size, holders - 1
        else:
            self.size -= size

    def _drop_slowest(self) -> None:
        """Drop the viewers that have not read for longest, until the rest is within the budget."""
        if self.size <= self._max_bytes:
            return
        for viewer in sorted(
            (slow_viewer for slow_viewer in self._held if slow_viewer.stuck_since),
            key=lambda slow_viewer: slow_viewer.stuck_since,
        ):
            text = "viewer dropped: viewers left %d bytes unread, more than %d"
            log.info(text, self.size, self._max_bytes, extra=viewer.log_fields)
            self.release(viewer)
            viewer.drop()
            if self.size <= self._max_bytes:
                return
