"""The hot log in Redis: a stream and a channel a run, written by one self-clocked batcher a process."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bus.journal.hotlog import Listener, LogSource
from bus.journal.line import Line, pack, unpack
from bus.keys import Keys
from bus.redis_wire import Command, RedisWire, connect
from config.errors import RedisUnreachable

log = logging.getLogger(__name__)

SCRIPT = (Path(__file__).parent / "append.lua").read_text()
SCRIPT_SHA = hashlib.sha1(SCRIPT.encode()).hexdigest()
RETRY_FIRST_S, RETRY_MOST_S = 0.2, 2.0
DOWN_S = 1.0
"""Seconds between two attempts to reach Redis, and so between two early seals while it is away."""
REPLY_S = 5.0
"""How long Redis may take to answer a batch; then the connection is given up."""
MAX_ENTRY_BYTES = 64 * 1024
"""A body is cut about here, so that one reader's page stays small."""


@dataclass(slots=True)
class _Pending:
    """What one run has appended since the last batch left."""

    first: int
    last: int
    lines: list[bytes]
    size: int


@dataclass(slots=True)
class _Run:
    """A run this process writes."""

    fence: int
    source: LogSource
    stream: str
    meta: str
    channel: str
    pending: list[_Pending] = field(default_factory=list)


class RedisHotLog:
    """What is pending leaves in one pipeline as soon as the last one returned: no timer, no waiting.

    At a low rate that is one event at once; at a high rate batches grow by themselves.
    """

    def __init__(self, url: str, keys: Keys, *, ttl_s: int, max_bytes: int) -> None:
        self._url = url
        self._keys = keys
        self._ttl_ms = ttl_s * 1000
        self._max_bytes = max_bytes
        self._runs: dict[str, _Run] = {}
        self._dirty: dict[str, _Run] = {}
        self._others: list[Command] = []
        self._writer: RedisWire | None = None
        self._connecting: asyncio.Task[RedisWire] | None = None
        self._flushing: asyncio.Task[None] | None = None
        self._scheduled = False
        self._listeners: dict[str, list[Listener]] = {}
        self._hints: dict[str, list[Callable[[str], None]]] = {}
        self._subscriber: RedisWire | None = None
        self._subscribing = asyncio.Lock()
        self._reviving: asyncio.Task[None] | None = None
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False
        self._is_down = False  # said once an outage

    # --- writing

    def attach(self, run_id: str, fence: int, source: LogSource) -> None:
        keys, earlier = self._keys, self._runs.get(run_id)
        if earlier is not None and earlier.source is not source:
            if fence < earlier.fence:
                source.lost_ownership()
                return
            earlier.source.lost_ownership()
        self._runs[run_id] = _Run(fence, source, keys.stream(run_id), keys.meta(run_id), keys.live(run_id))

    def append(self, run_id: str, seq: int, line: bytes) -> None:
        run = self._runs.get(run_id)
        if run is None:
            return
        if run.pending and run.pending[-1].size < MAX_ENTRY_BYTES:
            pending = run.pending[-1]
            pending.last = seq
            pending.lines.append(line)
            pending.size += len(line)
        else:
            run.pending.append(_Pending(seq, seq, [line], len(line)))
            self._dirty[run_id] = run
        self._schedule()

    async def detach(self, run_id: str, fence: int | None = None) -> None:
        run = self._runs.get(run_id)
        if run is not None and fence in (None, run.fence):
            del self._runs[run_id]  # what it still has pending stands before these in the next pipeline
            self._others += [("PEXPIRE", run.stream, self._ttl_ms), ("PEXPIRE", run.meta, self._ttl_ms)]
            self._schedule()

    async def keep(self, run_ids: Iterable[str]) -> None:
        for run_id in run_ids:
            for name in (self._keys.stream(run_id), self._keys.meta(run_id)):
                self._others.append(("PEXPIRE", name, self._ttl_ms))
        self._schedule()

    def nudge(self, channel: str, text: str) -> None:
        self._others.append(("PUBLISH", channel, text))
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled and self._flushing is None and not self._closed:
            self._scheduled = True
            self._idle.clear()
            asyncio.get_running_loop().call_soon(self._start)

    def _start(self) -> None:
        self._scheduled = False
        self._flushing = asyncio.get_running_loop().create_task(self._flush_all())

    async def _flush_all(self) -> None:
        """Send batches until nothing is pending."""
        try:
            while self._dirty or self._others:
                await self._flush()
        finally:
            self._flushing = None
            self._idle.set()
            if self._dirty or self._others:
                self._schedule()

    async def _flush(self) -> None:
        try:
            wire = await self._connection()
        except RedisUnreachable as wrong:
            self._drop(wrong)
            await asyncio.sleep(DOWN_S)
            return
        commands, runs = self._take_batch()
        # A closed connection fails what waits for its replies; cheaper than a timeout around each batch.
        overdue = asyncio.get_running_loop().call_later(REPLY_S, wire.close)
        try:
            replies = await wire.send(commands)
            if any(_is_noscript(reply) for reply in replies):
                await wire.send([("SCRIPT", "LOAD", SCRIPT)])
                replies = await wire.send(commands)
        except ConnectionError as wrong:
            wire.close()
            for run in runs:
                run.source.seal_soon()
            self._drop(wrong)
            return
        finally:
            overdue.cancel()
        if self._is_down:
            self._is_down = False
            log.warning("Redis is back")
        for run, reply in zip(runs, replies, strict=False):
            self._heed(run, reply)

    async def _connection(self) -> RedisWire:
        """Return the connection for everything but messages; whoever needs it waits for the same attempt."""
        if self._writer is None or not self._writer.is_open:
            if self._connecting is None or self._connecting.done():
                self._connecting = asyncio.get_running_loop().create_task(connect(self._url))
            self._writer = await asyncio.shield(self._connecting)
        return self._writer

    def _take_batch(self) -> tuple[list[Command], list[_Run]]:
        commands: list[Command] = []
        runs: list[_Run] = []
        for run in self._dirty.values():
            for pending in run.pending:
                commands.append(
                    (
                        "EVALSHA", SCRIPT_SHA, 2, run.stream, run.meta, run.fence, pending.first, pending.last,
                        pack(pending.lines), run.channel, self._ttl_ms, self._max_bytes, run.source.sealed_to,
                    )
                )  # fmt: skip
                runs.append(run)
            run.pending = []
        self._dirty = {}
        commands += self._others
        self._others = []
        return commands, runs

    def _heed(self, run: _Run, reply: Any) -> None:
        if reply in (b"ok", b"same"):
            return
        if reply == b"stale":
            run.source.lost_ownership()
            return
        if isinstance(reply, Exception):  # out of memory, read-only replica, no permission
            log.warning("hot log refused an append: %s", reply)
        run.source.seal_soon()

    def _drop(self, wrong: Exception) -> None:
        """Forget what is pending: the log in SQL is complete without it, and readers poll there."""
        if not self._is_down:
            self._is_down = True
            log.warning("live events do not reach Redis, viewers read the database until it is back: %s", wrong)
        for run in self._dirty.values():
            run.pending = []
            run.source.seal_soon()
        self._dirty = {}
        self._others = []

    # --- reading

    async def read_after(self, run_id: str, cursor: int) -> list[Line]:
        try:
            wire = await self._connection()
            async with asyncio.timeout(5):
                (entries,) = await wire.send([("XRANGE", self._keys.stream(run_id), f"({cursor}-0", "+")])
        except (RedisUnreachable, ConnectionError, TimeoutError):
            return []
        if isinstance(entries, Exception):
            return []
        return [line for _, (_, body) in entries for line in unpack(body) if line.seq > cursor]

    @property
    def is_heard(self) -> bool:
        return self._subscriber is not None and self._subscriber.is_open

    async def follow(self, run_id: str, listener: Listener) -> None:
        channel = self._keys.live(run_id)
        self._listeners.setdefault(channel, []).append(listener)
        await self._subscribe(channel)

    async def unfollow(self, run_id: str, listener: Listener) -> None:
        channel = self._keys.live(run_id)
        listeners = self._listeners.get(channel, [])
        if listener in listeners:
            listeners.remove(listener)
        if not listeners and self._listeners.pop(channel, None) is not None and self._subscriber is not None:
            self._subscriber.unsubscribe(channel)

    async def listen(self, channel: str, function: Callable[[str], None]) -> None:
        self._hints.setdefault(channel, []).append(function)
        await self._subscribe(channel)

    async def _subscribe(self, channel: str) -> None:
        """Be subscribed, or have it tried in the background: a reader that hears nothing polls SQL."""
        try:
            async with self._subscribing:
                if self._reviving is not None and not self._reviving.done():
                    return  # it takes every channel there is
                if self._subscriber is None or not self._subscriber.is_open:
                    self._subscriber = await connect(
                        self._url, on_message=self._on_message, on_lost=self._on_subscriber_lost
                    )
            async with asyncio.timeout(5):
                await self._subscriber.subscribe(channel)
        except (RedisUnreachable, ConnectionError, TimeoutError):
            self._revive()

    def _on_message(self, channel: str, body: bytes) -> None:
        listeners = self._listeners.get(channel)
        if listeners:
            lines = unpack(body)
            for listener in tuple(listeners):
                listener(lines)
        for function in tuple(self._hints.get(channel, ())):
            function(body.decode(errors="replace"))

    def _on_subscriber_lost(self) -> None:
        self._subscriber = None
        for listeners in self._listeners.values():
            for listener in tuple(listeners):
                listener([])
        self._revive()

    def _revive(self) -> None:
        if not self._closed and (self._reviving is None or self._reviving.done()):
            self._reviving = asyncio.get_running_loop().create_task(self._subscribe_again())

    async def _subscribe_again(self) -> None:
        pause_s = RETRY_FIRST_S
        while not self._closed and (self._listeners or self._hints):
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, RETRY_MOST_S)
            try:
                wire = await connect(self._url, on_message=self._on_message, on_lost=self._on_subscriber_lost)
            except RedisUnreachable:
                continue
            try:
                async with asyncio.timeout(5):
                    await self._subscribe_all(wire)
            except (ConnectionError, TimeoutError):
                wire.close()
                continue
            self._subscriber = wire
            for listeners in self._listeners.values():
                for listener in tuple(listeners):
                    listener([])
            return

    async def _subscribe_all(self, wire: RedisWire) -> None:
        """Subscribe to every channel somebody wants, also to those wanted meanwhile."""
        done: set[str] = set()
        while missing := {*self._listeners, *self._hints} - done:
            await asyncio.gather(*(wire.subscribe(channel) for channel in missing))
            done |= missing

    async def close(self) -> None:
        try:
            async with asyncio.timeout(0 if self._is_down else 2):
                await self._idle.wait()
        except TimeoutError:
            log.info("hot log closed with events unsent; SQL has them")
        self._closed = True
        for task in (self._reviving, self._flushing):
            if task is not None:
                task.cancel()
        for wire in (self._writer, self._subscriber):
            if wire is not None:
                wire.close()


def _is_noscript(reply: Any) -> bool:
    return isinstance(reply, Exception) and str(reply).startswith("NOSCRIPT")
