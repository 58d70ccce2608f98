"""A past state of a thread, as clients name it."""

from __future__ import annotations

from typing import NamedTuple


class MessagesUntil(NamedTuple):
    """A past state of a thread. Messages are only ever added, each with the next number of its thread."""

    number: int = 2**31 - 1
    """The number of the newest message."""
    time_ms: int = 2**53
    """When the newest message was added at the latest."""


NOW = MessagesUntil()
