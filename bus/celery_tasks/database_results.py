"""Results in a database, which the application's workers write with SQLAlchemy; polled."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
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

from bus.celery_tasks.state import MAX_BYTES, PENDING, TaskState, decode_row, too_large
from bus.errors import RESULTS_UNREACHABLE
from config.definitions.errors import ToolUnknown
from config.redaction import redact

READ_S = 5
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
