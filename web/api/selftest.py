"""The self-test: a stream by which a client knows what a proxy between them does to streams and headers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any

import orjson
from flask import Blueprint, Response, request
from typing_extensions import TypeAliasType

from bus.journal.readers import Line
from config.clock import epoch_ms
from web.auth.authentication import current_principal
from web.calls.call import call
from web.calls.fields import Answer, Input
from web.calls.parameters import Whole
from web.errors import TOO_MANY_VIEWERS
from web.feeds.page import frame
from web.feeds.viewers import Stream, Viewer
from web.process import current_process
from web.proxies import FORWARDED, Forwarded
from web.sse import StreamResponse

NAMED = ("Authorization", "Idempotency-Key", "Last-Event-ID", "Origin")
"""Headers that proxies are known to drop."""


def received(environ: Mapping[str, Any]) -> dict[str, Any]:
    """Return what arrived of the request: names of headers, never their values, and the address as it is judged."""
    forwarded: Forwarded = environ[FORWARDED]
    return {
        "headers": [name for name in NAMED if "HTTP_" + name.upper().replace("-", "_") in environ],
        "forwarded": list(forwarded.headers),
        "proxy_is_trusted": forwarded.is_trusted,
        "scheme": environ["wsgi.url_scheme"],
        "host": environ.get("HTTP_HOST", ""),
        "protocol": environ.get("SERVER_PROTOCOL", ""),
    }


class SelftestStream(Stream):
    """One viewer's: a ``hello``, then a ``tick`` after each interval, silence, and an ``end``."""

    is_kept_alive = False

    def __init__(self, hello: Mapping[str, Any], *, events: int, interval_s: float, idle_s: float) -> None:
        self._hello = hello
        self._pauses = [interval_s] * events + [idle_s]

    def attach(self, viewer: Viewer) -> None:
        viewer.task = asyncio.get_running_loop().create_task(self._say(viewer))

    async def _say(self, viewer: Viewer) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        self._write(viewer, 1, "hello", {**self._hello, "elapsed_ms": 0})
        for number, pause_s in enumerate(self._pauses, start=2):
            await asyncio.sleep(pause_s)
            kind = "tick" if number < len(self._pauses) + 1 else "end"
            self._write(viewer, number, kind, {"elapsed_ms": round((loop.time() - began) * 1000)})
        viewer.finish()

    def _write(self, viewer: Viewer, number: int, kind: str, facts: Mapping[str, Any]) -> None:
        if not viewer.is_gone:
            viewer.write(frame(Line(number, kind, orjson.dumps({**facts, "at_ms": epoch_ms()}))))


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
