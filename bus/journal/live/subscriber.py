"""A process's one subscription to Redis: every channel that a reader here follows, over one connection.

A lost connection is opened again by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context

from bus.journal.live.hotlog import Listener, remove_from
from bus.journal.live.signatures import Keyring
from bus.redis_wire import RedisWire, connect
from config.redis.errors import RedisUnreachable

RETRY_FIRST_S, RETRY_MOST_S = 0.2, 2.0
CONFIRM_S = 1.0
"""How long a reader waits for Redis to confirm a channel; without live events it polls SQL."""
PING_EVERY_S = 5.0
"""Seconds between two pings, which notice a peer that vanished without closing the connection."""
MAX_HINT_BYTES = 200
"""A hint is a word and an id; longer texts are cut."""


class Subscriber:
    """Used on the loop. When the connection is lost, all listeners are notified that they may have missed events."""

    def __init__(self, url: str, keyring: Keyring) -> None:
        self._url = url
        self._keyring = keyring
        self._listeners: dict[str, list[Listener]] = {}
        self._hints: dict[str, list[Callable[[str], None]]] = {}
        self._wire: RedisWire | None = None
        self._connecting = asyncio.Lock()
        self._reconnecting: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def is_open(self) -> bool:
        """Whether published events arrive, as far as is known."""
        return self._wire is not None and self._wire.is_open

    async def follow(self, channel: str, listener: Listener) -> None:
        """Call ``listener`` with the events published on ``channel`` from now on."""
        self._listeners.setdefault(channel, []).append(listener)
        await self._subscribe(channel)

    def unfollow(self, channel: str, listener: Listener) -> None:
        if remove_from(self._listeners, channel, listener):
            self._keyring.forget(channel)
            self._unsubscribe(channel)

    async def listen(self, channel: str, function: Callable[[str], None]) -> None:
        self._hints.setdefault(channel, []).append(function)
        await self._subscribe(channel)

    def unlisten(self, channel: str, function: Callable[[str], None]) -> None:
        if remove_from(self._hints, channel, function):
            self._unsubscribe(channel)

    def close(self) -> None:
        """Close the connection and stop reconnecting."""
        self._closed = True
        for task in (self._reconnecting, self._watching):
            if task is not None:
                task.cancel()
        if self._wire is not None:
            self._wire.close()

    # --- the connection

    async def _subscribe(self, channel: str) -> None:
        """Subscribe, or retry in the background; meanwhile readers poll SQL."""
        try:
            async with self._connecting:
                if self._reconnecting is not None and not self._reconnecting.done():
                    return  # reconnecting subscribes to every channel
                wire = self._wire if self._wire is not None and self._wire.is_open else await self._connect()
                self._use(wire)
            async with asyncio.timeout(CONFIRM_S):
                await wire.subscribe(channel)
        except (RedisUnreachable, ConnectionError):
            self._reconnect_soon()
        except TimeoutError:
            if wire is self._wire:
                self._disconnect()

    def _unsubscribe(self, channel: str) -> None:
        if self._wire is not None:
            self._wire.unsubscribe(channel)

    async def _connect(self) -> RedisWire:
        connecting = connect(self._url, on_message=self._on_message, on_lost=self._on_lost)
        # In a context of no run: the callbacks of the connection run in the one in which it was opened.
        return await asyncio.get_running_loop().create_task(connecting, context=Context())

    def _use(self, wire: RedisWire) -> None:
        self._wire = wire
        if self._watching is None or self._watching.done():
            self._watching = asyncio.get_running_loop().create_task(self._watch_connection(), context=Context())

    def _on_lost(self) -> None:
        if self._wire is not None and not self._wire.is_open:  # else it was another connection
            self._disconnect()

    def _disconnect(self) -> None:
        """Close the connection, notify listeners of a possible gap, and open another."""
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.close()
        self._notify_missed()
        self._reconnect_soon()

    async def _watch_connection(self) -> None:
        while True:
            await asyncio.sleep(PING_EVERY_S)
            wire = self._wire
            if wire is None:
                continue
            try:
                async with asyncio.timeout(CONFIRM_S):
                    await wire.ping()
            except (ConnectionError, TimeoutError):
                if wire is self._wire:
                    self._disconnect()

    def _reconnect_soon(self) -> None:
        if not self._closed and (self._reconnecting is None or self._reconnecting.done()):
            self._reconnecting = asyncio.get_running_loop().create_task(self._reconnect(), context=Context())

    async def _reconnect(self) -> None:
        pause_s = RETRY_FIRST_S
        while not self._closed and (self._listeners or self._hints):
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, RETRY_MOST_S)
            try:
                wire = await self._connect()
            except RedisUnreachable:
                continue
            try:
                async with asyncio.timeout(5):
                    await self._subscribe_all(wire)
            except (ConnectionError, TimeoutError):
                wire.close()
                continue
            if wire.is_open:  # else it was lost before it was in use, so on_lost did nothing
                self._use(wire)
                self._notify_missed()
                return

    async def _subscribe_all(self, wire: RedisWire) -> None:
        """Subscribe to every followed channel, also to those added meanwhile."""
        done: set[str] = set()
        while missing := {*self._listeners, *self._hints} - done:
            await asyncio.gather(*(wire.subscribe(channel) for channel in missing))
            done |= missing

    # --- what arrives

    def _on_message(self, channel: str, body: bytes) -> None:
        listeners = self._listeners.get(channel)
        if listeners:
            lines = self._keyring.verify_published(channel, body)
            if lines or self._keyring.should_hint(channel):
                for listener in tuple(listeners):
                    listener(lines)
        for function in tuple(self._hints.get(channel, ())):
            function(body[:MAX_HINT_BYTES].decode(errors="replace"))

    def _notify_missed(self) -> None:
        for listeners in tuple(self._listeners.values()):
            for listener in tuple(listeners):
                listener([])
