"""The results of tasks, as an application's workers write them.

In Redis they are read in one pipeline, and noticed at once on the channels on which Celery publishes them. In a
database, where the workers write them with SQLAlchemy, they are polled.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import Context
from typing import Any

from sqlalchemy import (
    Column,
    Engine,
    LargeBinary,
    MetaData,
    String,
    Table,
    bindparam,
    case,
    create_engine,
    func,
    select,
    text,
)
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from bus.celery_tasks.state import MAX_BYTES, PENDING, TaskState, decode_meta, decode_row, too_large
from bus.errors import RESULTS_UNREACHABLE
from bus.redis_wire import RedisWire, connect
from config.definitions.errors import ToolUnknown
from config.redaction import redact
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


# --- results in a database


DATABASE_READ_S = 5
"""Seconds until a connection has to be open."""

_POSTGRES_INCARNATION = text(
    "SELECT concat_ws(' ', system_identifier, pg_postmaster_start_time(), "
    "left(pg_walfile_name(pg_current_wal_lsn()), 8), coalesce(pg_relation_filenode(to_regclass(:table)), 0)) "
    "FROM pg_control_system() WHERE NOT pg_is_in_recovery()"
)
"""The cluster, its start, its timeline and the table's file; of a standby, which may lack rows, nothing."""


class DatabaseResults:
    """The result backend of one application; queries run on a thread."""

    def __init__(self, url: str, table: str) -> None:
        """``url``: in SQLAlchemy's form.

        Raises:
            ToolUnknown: no installed driver serves the URL.
        """
        schema, _, name = table.rpartition(".")
        columns = Column("task_id", String(155)), Column("status", String(50)), Column("result", LargeBinary)
        rows = Table(name, MetaData(), *columns, schema=schema or None)
        self._table = table
        size = func.length(rows.c.result)
        whole = case((size <= MAX_BYTES, rows.c.result), else_=None)
        self._query = select(rows.c.task_id, rows.c.status, size, whole).where(
            rows.c.task_id.in_(bindparam("ids", expanding=True))
        )
        try:
            self._engine: Engine = create_engine(url, pool_size=2, max_overflow=0, pool_pre_ping=True)
        except (ArgumentError, ImportError, ValueError) as error:
            raise ToolUnknown(
                f"the result backend cannot be opened ({type(error).__name__}: {redact(str(error))[:200]}); write a "
                "URL like db+postgresql+psycopg://host/name, and install its driver beside Callboard."
            ) from error

    async def states(self, task_ids: Collection[str]) -> Mapping[str, TaskState]:
        """Return the state of each task.

        Raises:
            RESULTS_UNREACHABLE: the database does not answer, or has no such table.
        """
        return await asyncio.to_thread(self._read, tuple(task_ids))

    async def incarnation(self) -> str | None:
        """Return what changes when the database may have lost rows; None where it is neither Postgres nor SQLite.

        On Postgres it starts again, is restored or promoted, or the table is truncated; on SQLite its file is another
        one. That single rows are deleted is not seen.

        Raises:
            RESULTS_UNREACHABLE: the database does not answer.
        """
        return await asyncio.to_thread(self._incarnation)

    async def subscribe(self, task_id: str, listener: Callable[[], None]) -> bool:
        """Return False: a database does not say what changes."""
        return False

    def unsubscribe(self, task_id: str, listener: Callable[[], None]) -> None:
        """There is nothing to end."""

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()

    def _incarnation(self) -> str | None:
        if self._engine.dialect.name == "postgresql":
            with _naming_errors(), self._engine.connect() as connection:
                incarnation: str | None = connection.execute(_POSTGRES_INCARNATION, {"table": self._table}).scalar()
            return incarnation
        file = self._engine.url.database if self._engine.dialect.name == "sqlite" else None
        try:
            facts = os.stat(file or "")
        except OSError:
            return None
        return f"{facts.st_dev} {facts.st_ino}"

    def _read(self, task_ids: tuple[str, ...]) -> dict[str, TaskState]:
        with _naming_errors(), self._engine.connect() as connection:
            rows = connection.execute(self._query, {"ids": task_ids}).all()
        return dict.fromkeys(task_ids, PENDING) | {row[0]: _state(*row[1:]) for row in rows}


@contextmanager
def _naming_errors() -> Iterator[None]:
    try:
        yield
    except SQLAlchemyError as error:
        reason = redact(str(getattr(error, "orig", None) or error))[:200].splitlines()
        raise RESULTS_UNREACHABLE(f"the results cannot be read: {reason[0] if reason else 'no reason'}") from error


def _state(status: str, size: int | None, raw: Any) -> TaskState:
    if size is not None and size > MAX_BYTES:
        return too_large(status)
    return decode_row(status, bytes(raw) if raw is not None else None)
