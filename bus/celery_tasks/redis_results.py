"""Results in Redis: read in one pipeline, and noticed at once on the channels on which Celery publishes them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextvars import Context
from typing import Any

from bus.celery_tasks.state import MAX_BYTES, PENDING, TaskState, decode_meta
from bus.redis_wire import RedisWire, connect
from config.redis.errors import RedisUnreachable

log = logging.getLogger(__name__)

READ_S = 5.0
"""Seconds that a read may take."""
BESIDE_LOOP_BYTES = 64 * 1024
"""Entries from this size on are decoded on a thread."""

_SECTIONS = ("server", "replication", "stats", "commandstats")
_IDENTITY = ("run_id", "master_replid", "evicted_keys")
_REMOVE_ALL = ("flushdb", "flushall", "swapdb")


class RedisResults:
    """The result backend of one application; to be used on the loop. A lost connection is opened at the next call."""

    def __init__(self, url: str, key_prefix: str) -> None:
        self._url = url
        self._prefix = f"{_with_separator(key_prefix)}celery-task-meta-"
        self._reading: RedisWire | None = None
        self._listening: RedisWire | None = None
        self._subscribed: set[str] = set()
        self._listeners: dict[str, set[Callable[[], None]]] = {}
        self._opening = asyncio.Lock()

    async def states(self, task_ids: Collection[str]) -> Mapping[str, TaskState]:
        """Return the state of each task.

        Raises:
            RedisUnreachable: the backend does not answer, or refuses the command.
        """
        commands = [("GETRANGE", self._prefix + task_id, 0, MAX_BYTES) for task_id in task_ids]
        try:
            async with asyncio.timeout(READ_S):
                wire = self._reading = await self._open(self._reading)
                replies = await wire.send(commands)
        except (ConnectionError, TimeoutError, RedisUnreachable) as error:
            self._drop_reading()
            raise RedisUnreachable("the result backend does not answer; start it, or correct its URL.") from error
        state_by_id = {}
        for task_id, reply in zip(task_ids, replies, strict=True):
            if isinstance(reply, Exception):
                raise RedisUnreachable(f"the result backend refuses to be read: {str(reply)[:200]}")
            state_by_id[task_id] = await _decoded(reply)
        return state_by_id

    async def incarnation(self) -> str | None:
        """Return what changes when the server may have lost entries before they expire; None where it does not say.

        It starts again, fails over (``master_replid``), evicts keys, or a command removes a whole database. That one
        entry alone is deleted is not seen.

        Raises:
            RedisUnreachable: the backend does not answer.
        """
        try:
            async with asyncio.timeout(READ_S):
                wire = self._reading = await self._open(self._reading)
                replies = await wire.send([("INFO", section) for section in _SECTIONS])
        except (ConnectionError, TimeoutError, RedisUnreachable) as error:
            self._drop_reading()
            raise RedisUnreachable("the result backend does not answer; start it, or correct its URL.") from error
        return _incarnation(replies)

    async def subscribe(self, task_id: str, listener: Callable[[], None]) -> bool:
        """Call ``listener`` when the state of a task changes, and when changes may have been missed.

        Returns whether changes arrive; if not, the caller has to look by itself. A second call opens a connection
        that was lost again.
        """
        self._listeners.setdefault(self._prefix + task_id, set()).add(listener)
        try:
            async with asyncio.timeout(READ_S), self._opening:
                wire = await self._open_listening()
                missing = self._listeners.keys() - self._subscribed
                await asyncio.gather(*(wire.subscribe(channel) for channel in missing))
                self._subscribed |= missing
        except (ConnectionError, TimeoutError, RedisUnreachable) as error:
            log.warning("results of Celery tasks are polled: %s", error)
            self._drop_listening()
            return False
        return True

    def unsubscribe(self, task_id: str, listener: Callable[[], None]) -> None:
        """Call ``listener`` no more."""
        channel = self._prefix + task_id
        listeners = self._listeners.get(channel, set())
        listeners.discard(listener)
        if not listeners:
            self._listeners.pop(channel, None)
            if channel in self._subscribed and self._listening is not None:
                self._subscribed.discard(channel)
                self._listening.unsubscribe(channel)

    def close(self) -> None:
        """Close the connections."""
        self._drop_reading()
        self._drop_listening()

    async def _open_listening(self) -> RedisWire:
        if self._listening is None or not self._listening.is_open:
            self._subscribed = set()
            self._listening = await _connected(self._url, self._on_message, self._on_lost)
        return self._listening

    async def _open(self, wire: RedisWire | None) -> RedisWire:
        return wire if wire is not None and wire.is_open else await _connected(self._url, None, lambda: None)

    def _drop_reading(self) -> None:
        wire, self._reading = self._reading, None
        if wire is not None:
            wire.close()

    def _drop_listening(self) -> None:
        wire, self._listening = self._listening, None
        self._subscribed = set()
        if wire is not None:
            wire.close()

    def _on_message(self, channel: str, body: bytes) -> None:
        for listener in tuple(self._listeners.get(channel, ())):
            listener()

    def _on_lost(self) -> None:
        for channel in tuple(self._listeners):
            self._on_message(channel, b"")


async def _connected(
    url: str, on_message: Callable[[str, bytes], None] | None, on_lost: Callable[[], None]
) -> RedisWire:
    # In a context of no run: the callbacks of the connection run in the one in which it was opened.
    connecting = connect(url, on_message=on_message, on_lost=on_lost)
    return await asyncio.get_running_loop().create_task(connecting, context=Context())


def _incarnation(replies: Sequence[Any]) -> str | None:
    if any(isinstance(reply, Exception) for reply in replies):  # a user who may not call INFO
        return None
    lines = b"\n".join(replies).decode("utf-8", "replace").splitlines()
    facts = dict(line.partition(":")[::2] for line in lines if ":" in line)
    if not all(facts.get(name) for name in _IDENTITY):
        return None
    removals = [facts.get(f"cmdstat_{command}", "calls=0").partition(",")[0] for command in _REMOVE_ALL]
    return " ".join([*(facts[name] for name in _IDENTITY), *removals])


async def _decoded(raw: bytes) -> TaskState:
    if not raw:
        return PENDING
    return decode_meta(raw) if len(raw) < BESIDE_LOOP_BYTES else await asyncio.to_thread(decode_meta, raw)


def _with_separator(prefix: str) -> str:
    """Return the prefix as Celery writes it: with ``_`` behind it unless it ends with a separator."""
    return f"{prefix}_" if prefix and prefix[-1] not in ":_-." else prefix
