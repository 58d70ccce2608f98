"""Results in a database, which the application's workers write with SQLAlchemy; polled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
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
)
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from bus.celery_tasks.state import MAX_BYTES, PENDING, TaskState, decode_row, too_large
from bus.errors import ResultsUnreachable
from config.definitions.errors import ToolUnknown
from config.redaction import redact

READ_S = 5
"""Seconds until a connection has to be open."""


class DatabaseResults:
    """The result backend of one application; queries run on a thread."""

    losses = 0
    """A database keeps what it holds when its connections are lost."""

    def __init__(self, url: str, table: str) -> None:
        """``url``: in SQLAlchemy's form.

        Raises:
            ToolUnknown: no installed driver serves the URL.
        """
        schema, _, name = table.rpartition(".")
        columns = Column("task_id", String(155)), Column("status", String(50)), Column("result", LargeBinary)
        rows = Table(name, MetaData(), *columns, schema=schema or None)
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
            ResultsUnreachable: the database does not answer, or has no such table.
        """
        return await asyncio.to_thread(self._read, tuple(task_ids))

    async def subscribe(self, task_id: str, listener: Callable[[], None]) -> bool:
        """Return False: a database does not say what changes."""
        return False

    def unsubscribe(self, task_id: str, listener: Callable[[], None]) -> None:
        """There is nothing to end."""

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()

    def _read(self, task_ids: tuple[str, ...]) -> dict[str, TaskState]:
        try:
            with self._engine.connect() as connection:
                rows = connection.execute(self._query, {"ids": task_ids}).all()
        except SQLAlchemyError as error:
            reason = redact(str(getattr(error, "orig", None) or error))[:200].splitlines()
            raise ResultsUnreachable(f"the results cannot be read: {reason[0] if reason else 'no reason'}") from error
        return dict.fromkeys(task_ids, PENDING) | {row[0]: _state(*row[1:]) for row in rows}


def _state(status: str, size: int | None, raw: Any) -> TaskState:
    if size is not None and size > MAX_BYTES:
        return too_large(status)
    return decode_row(status, bytes(raw) if raw is not None else None)
