"""The events of the self-test stream."""

from __future__ import annotations

from typing_extensions import TypeAliasType

from web.calls.fields import Answer


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
