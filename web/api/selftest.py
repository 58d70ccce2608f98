"""The self-test: a stream by which a client knows what a proxy between them does to streams and headers."""

from __future__ import annotations

from typing import Annotated

from flask import Blueprint, Response, request
from typing_extensions import TypeAliasType

from web.auth.authentication import current_principal
from web.calls.call import call
from web.calls.fields import Answer, Input
from web.calls.parameters import Whole
from web.errors import TOO_MANY_VIEWERS
from web.feeds.selftest import SelftestStream, received
from web.process import current_process
from web.sse import StreamResponse


class SelftestTick(Answer):
    """A ``tick`` after each interval, and the ``end`` after the idle gap."""

    elapsed_ms: int
    """Milliseconds between the first event and this one when the server sent it."""
    at_ms: int
    """The server's clock then, in milliseconds since 1970."""


class SelftestHello(SelftestTick):
    """The first event, ``hello``: what arrived of the request."""

    headers: list[str]
    """Which of Authorization, Idempotency-Key, Last-Event-ID and Origin arrived; never their values."""
    forwarded: list[str]
    """Names of the headers that arrived in which proxies describe a client."""
    proxy_is_trusted: bool
    """Whether the peer that sent them is a trusted proxy."""
    scheme: str
    """``http`` or ``https``, by the connection or by a trusted proxy."""
    host: str
    """The Host that counts."""
    protocol: str
    """The protocol of the connection to the web process, such as HTTP/1.1."""


SelftestEvent = TypeAliasType("SelftestEvent", SelftestHello | SelftestTick)
"""``hello``, then ``tick`` after each interval, then silence, then ``end``."""


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
@call({200: {"text/event-stream": SelftestEvent}}, problems=(TOO_MANY_VIEWERS,))
def stream(query: Schedule) -> Response:
    """Stream small events at known times, an idle gap and an end; the first says which headers arrived."""
    viewers, hello = current_process().hub.viewers, received(request.environ)
    viewers.require_room(current_principal())
    feed = SelftestStream(hello, events=query.events, interval_s=query.interval_ms / 1000, idle_s=query.idle_s)
    return StreamResponse(viewers, lambda: feed)
