"""The self-test stream: events at known times, an idle gap, and what arrived of the request's headers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import orjson

from bus.journal.readers import Line
from config.clock import epoch_ms
from web.feeds.page import frame
from web.feeds.viewers import Stream, Viewer
from web.proxies import FORWARDED, Forwarded

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
