"""The place of a client in a stream of events."""

from __future__ import annotations

import json

from httpx_sse import ServerSentEvent

from callboard_client.events import Event, event_of


class Place:
    """How far a run was read: each event is taken once, whatever the stream repeats or leaves unfinished."""

    def __init__(self, after: int) -> None:
        self.after = after
        """The number of the last event that was taken; the next connection resumes behind it."""

    def take(self, block: ServerSentEvent) -> Event | None:
        """Return the event of a block, or None where it has none that is new.

        A block without data carried ``retry:`` or a comment. One whose data is no JSON was truncated by a lost
        connection, and comes again.
        """
        try:
            event = event_of(json.loads(block.data))
        except (ValueError, KeyError, TypeError):
            return None
        if event.seq <= self.after:
            return None
        self.after = event.seq
        return event
