"""The ear of a process: one connection that hears every channel somebody here wants, and finds its way back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from bus.journal.gate import Gate
from bus.journal.hotlog import Listener
from bus.redis_wire import RedisWire, connect
from config.errors import RedisUnreachable

RETRY_FIRST_S, RETRY_MOST_S = 0.2, 2.0
CONFIRM_S = 1.0
"""How long somebody waits for Redis to confirm a channel; whoever hears nothing asks SQL."""
PULSE_S = 5.0
"""Seconds between two questions whether the connection still is one: a peer that vanished says nothing."""
MAX_HINT_BYTES = 200
"""A hint is a word and an id; more is not looked at."""


class Subscriber:
    """Everything happens on the loop. A lost connection is told to all who follow: they may have missed something."""

    def __init__(self, url: str, gate: Gate) -> None:
        self._url = url
        self._gate = gate
        self._listeners: dict[str, list[Listener]] = {}
        self._hints: dict[str, list[Callable[[str], None]]] = {}
        self._wire: RedisWire | None = None
        self._connecting = asyncio.Lock()
        self._reviving: asyncio.Task[None] | None = None
        self._pulse: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def is_open(self) -> bool:
        """Whether what is published is heard, as far as is known."""
        return self._wire is not None and self._wire.is_open

    async def follow(self, channel: str, listener: Listener) -> None:
        """Call ``listener`` with the events published on ``channel`` from now on."""
        self._listeners.setdefault(channel, []).append(listener)
        await self._subscribe(channel)

    def unfollow(self, channel: str, listener: Listener) -> None:
        """Call it no more."""
        listeners = self._listeners.get(channel, [])
        if listener in listeners:
            listeners.remove(listener)
        if not listeners and self._listeners.pop(channel, None) is not None:
            self._gate.forget(channel)
            if self._wire is not None:
                self._wire.unsubscribe(channel)

    async def listen(self, channel: str, function: Callable[[str], None]) -> None:
        """Call ``function`` with each hint on ``channel``."""
        self._hints.setdefault(channel, []).append(function)
        await self._subscribe(channel)

    def close(self) -> None:
        """Hear nothing any more."""
        self._closed = True
        for task in (self._reviving, self._pulse):
            if task is not None:
                task.cancel()
        if self._wire is not None:
            self._wire.close()

    # --- the connection

    async def _subscribe(self, channel: str) -> None:
        """Be subscribed, or have it tried in the background: a reader that hears nothing polls SQL."""
        try:
            async with self._connecting:
                if self._reviving is not None and not self._reviving.done():
                    return  # it takes every channel there is
                wire = self._wire if self._wire is not None and self._wire.is_open else await self._connect()
                self._keep(wire)
            async with asyncio.timeout(CONFIRM_S):
                await wire.subscribe(channel)
        except (RedisUnreachable, ConnectionError):
            self._revive()
        except TimeoutError:
            if wire is self._wire:
                self._lose()

    async def _connect(self) -> RedisWire:
        lost: list[RedisWire] = []
        wire = await connect(self._url, on_message=self._on_message, on_lost=lambda: self._on_lost(lost))
        lost.append(wire)
        return wire

    def _keep(self, wire: RedisWire) -> None:
        self._wire = wire
        if self._pulse is None or self._pulse.done():
            self._pulse = asyncio.get_running_loop().create_task(self._feel_pulse())

    def _on_lost(self, wire: list[RedisWire]) -> None:
        if wire and wire[0] is self._wire:
            self._lose()

    def _lose(self) -> None:
        """Let go of the connection, say that something may be missed, and look for another."""
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.close()
        self._say_missed()
        self._revive()

    async def _feel_pulse(self) -> None:
        while True:
            await asyncio.sleep(PULSE_S)
            wire = self._wire
            if wire is None:
                continue
            try:
                async with asyncio.timeout(CONFIRM_S):
                    await wire.pulse()
            except (ConnectionError, TimeoutError):
                if wire is self._wire:
                    self._lose()

    def _revive(self) -> None:
        if not self._closed and (self._reviving is None or self._reviving.done()):
            self._reviving = asyncio.get_running_loop().create_task(self._subscribe_again())

    async def _subscribe_again(self) -> None:
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
            if not wire.is_open:  # lost before it was ours, so nobody was told
                continue
            self._keep(wire)
            self._say_missed()
            return

    async def _subscribe_all(self, wire: RedisWire) -> None:
        """Subscribe to every channel somebody wants, also to those wanted meanwhile."""
        done: set[str] = set()
        while missing := {*self._listeners, *self._hints} - done:
            await asyncio.gather(*(wire.subscribe(channel) for channel in missing))
            done |= missing

    # --- what is heard

    def _on_message(self, channel: str, body: bytes) -> None:
        listeners = self._listeners.get(channel)
        if listeners:
            lines = self._gate.said(channel, body)
            if lines or self._gate.forgeries.is_worth_a_hint(channel):
                for listener in tuple(listeners):
                    listener(lines)
        for function in tuple(self._hints.get(channel, ())):
            function(body[:MAX_HINT_BYTES].decode(errors="replace"))

    def _say_missed(self) -> None:
        for listeners in tuple(self._listeners.values()):
            for listener in tuple(listeners):
                listener([])
