"""A bound on informational answers (1xx), of which a server may send any number before the answer itself.

The client drops them without counting, and a flood of them leaves the event loop little time for other runs. httpx2
reads answers through ``h11``, which is where they are counted.
"""

from __future__ import annotations

from typing import Any

import h11

MOST = 16
"""Informational answers before one answer; servers send one or two."""
PROBLEM = f"sent more than {MOST} informational answers (1xx) and no other"


class InformationalFlood(h11.RemoteProtocolError):
    """A server sends informational answers instead of an answer; its connection is closed."""


def bound_informational() -> None:
    """Have every connection of this process end at a flood of informational answers; a second call does nothing."""
    next_event = h11.Connection.next_event
    if getattr(next_event, "is_bounded", False):
        return

    def bounded(connection: Any) -> Any:
        event = next_event(connection)
        if isinstance(event, h11.InformationalResponse):
            connection.informational = getattr(connection, "informational", 0) + 1
            if connection.informational > MOST:
                raise InformationalFlood(PROBLEM)
        elif isinstance(event, h11.Response):
            connection.informational = 0
        return event

    bounded.is_bounded = True  # type: ignore[attr-defined]  # a mark, so that it is installed once
    h11.Connection.next_event = bounded  # type: ignore[method-assign, assignment]  # the one place all pass
