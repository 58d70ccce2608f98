"""The self-test: a stream by which a client knows what a proxy between them does to streams and headers."""

from __future__ import annotations

from typing import Annotated

from flask import Blueprint, Response, request

from web.auth.authentication import current_principal
from web.calls.call import call
from web.calls.fields import Input
from web.calls.parameters import Whole
from web.errors import TooManyViewers
from web.process import current_process
from web.schemas.selftest import SelftestEvent
from web.selftest import SelftestStream, received
from web.sse import StreamResponse

selftest = Blueprint("selftest", __name__)


class Schedule(Input):
    """When the events are sent."""

    events: Annotated[int, Whole(1, 20)] = 5
    """How many ``tick`` follow the first event."""
    interval_ms: Annotated[int, Whole(50, 5000)] = 300
    """Milliseconds before each of them."""
    idle_s: Annotated[int, Whole(0, 120)] = 20
    """Seconds of silence before the ``end``; other streams send a comment every 15 s."""


@selftest.get("/v1/selftest/stream")
@call({200: {"text/event-stream": SelftestEvent}}, problems=(TooManyViewers,))
def stream(query: Schedule) -> Response:
    """Stream small events at known times, an idle gap and an end; the first says which headers arrived."""
    viewers, hello = current_process().hub.viewers, received(request.environ)
    viewers.require_room(current_principal())
    feed = SelftestStream(hello, events=query.events, interval_s=query.interval_ms / 1000, idle_s=query.idle_s)
    return StreamResponse(viewers, lambda: feed)
