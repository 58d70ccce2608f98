"""Where a first token spends its time: the legs from the client's request to the token, of one run and of many.

All times are of one machine: the client's and the model server's own clock readings, and the journal's event times.
"""

from __future__ import annotations

import http.client
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from urllib.parse import urlsplit

import orjson

HALF_MS_NS = 500_000
"""Event times are cut to milliseconds, so half of one is added."""
Spans = dict[str, int]
"""Nanoseconds each leg of one run took."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Clocks:
    """The distance of the wall clock from the monotonic clock, read once in a process."""

    offset_ns: int

    @classmethod
    def read(cls) -> Clocks:
        """Return the distance now."""
        return cls(offset_ns=time.time_ns() - time.monotonic_ns())

    def monotonic_ns(self, at: str) -> int:
        """Return an event's time as this machine's monotonic clock showed it."""
        return round(datetime.fromisoformat(at).timestamp() * 1000) * 1_000_000 + HALF_MS_NS - self.offset_ns


@dataclass(frozen=True, kw_only=True, slots=True)
class Moments:
    """When a run's first token passed each place, in monotonic nanoseconds; None where the way has no such place."""

    sent: int
    """The client sent its request."""
    queued: int | None = None
    """The run was accepted: the time of its event ``queued``."""
    running: int | None = None
    """A worker claimed it: the time of its event ``running``."""
    asked: int
    """The model server had read the request."""
    written: int
    """The model server wrote the first token."""
    numbered: int | None = None
    """The worker numbered it: the time of its event."""
    received: int
    """The client had read it."""


LEGS = (
    ("sent", "queued", "client sends → run queued"),
    ("queued", "running", "→ worker takes it"),
    ("running", "asked", "→ model server has the request"),
    ("sent", "asked", "client sends → model server has the request"),
    ("asked", "written", "→ model server writes the first token"),
    ("written", "numbered", "→ worker publishes its event"),
    ("numbered", "received", "→ client receives it"),
    ("written", "received", "model server writes the first token → client receives it"),
)
"""From and to which moment, and how the bench calls the leg. Those without an arrow in front are sums."""
FIRST_DESIGN_MS = {
    "client sends → run queued": 10,
    "→ worker takes it": 5,
    "→ client receives it": 50,
}
"""Leg -> what the first chat design allows for it: its API receives, its workflow is signalled, its page polls."""


def note_of(leg: str) -> str:
    """Return what the report says behind a leg's name."""
    return f"the first chat design allows {FIRST_DESIGN_MS[leg]}" if leg in FIRST_DESIGN_MS else ""


def legs_of(moments: Moments) -> Spans:
    """Return how long each leg took, without those that this way does not have."""
    spans = {}
    for begin, end, name in LEGS:
        first, last = getattr(moments, begin), getattr(moments, end)
        if first is not None and last is not None:
            spans[name] = last - first
    return spans


def trace(moments: Moments) -> str:
    """Return one run's legs as a line, in milliseconds."""
    names = [name for name in Moments.__slots__ if getattr(moments, name) is not None]
    steps = (f"{(getattr(moments, b) - getattr(moments, a)) / 1e6:.1f} → {b}" for a, b in pairwise(names))
    return f"sent → {' → '.join(steps)}"


def fetch_arrivals(model_url: str) -> Mapping[int, int]:
    """Return when the model server had read each request, by the stamp of the first token it answered with."""
    address = urlsplit(model_url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=10)
    try:
        connection.request("GET", "/arrivals")
        pairs: Sequence[tuple[int, int]] = orjson.loads(connection.getresponse().read())
        return dict(pairs)
    finally:
        connection.close()
