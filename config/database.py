"""The database: SQLite in the state folder, or Postgres, behind the same two verbs, read and write."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Engine,
    bindparam,
    create_engine,
    event,
    literal,
    literal_column,
)
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, OperationalError, SQLAlchemyError

from config.clock import boot_id, boot_ms, epoch_ms
from config.errors import CallboardError, DatabaseBusy, DatabaseUnreachable, SettingInvalid

BUSY_TIMEOUT_MS = 4000
"""How long SQLite waits for another writer before a caller hears of it; a door answers within 5 s."""


class Database:
    """One engine and how its dialect begins, tells the time and fails."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.is_sqlite = engine.dialect.name == "sqlite"
        self._writer = threading.Lock() if self.is_sqlite else None
        self._writing = engine.execution_options(callboard_write=True)
        self._reading = engine if self.is_sqlite else engine.execution_options(isolation_level="AUTOCOMMIT")

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Yield a connection in a transaction that may write; commits at the end, or changes nothing.

        On SQLite the transaction is IMMEDIATE: one that begins by reading and then writes would fail
        whenever another process wrote in between, whatever the timeout.
        """
        with self._named_errors(), self._turn(), self._writing.begin() as connection:
            yield connection

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Let one thread of this process write at a time, where the database has one writer.

        Waiting here costs less than SQLite's busy handler, which sleeps, and longer each time.
        """
        if self._writer is None:
            yield
            return
        if not self._writer.acquire(timeout=BUSY_TIMEOUT_MS / 1000):
            raise DatabaseBusy(f"the database {self.engine.url} is busy; try again in a moment.")
        try:
            yield
        finally:
            self._writer.release()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Yield a connection that only reads."""
        with self._named_errors(), self._reading.connect() as connection:
            yield connection

    def lease_clock(self) -> ColumnElement[int]:
        """Return the expression leases are compared with, in milliseconds.

        Postgres has one clock for all its clients. SQLite's clock is each caller's wall clock, so
        there the machine's boot clock is taken, which nobody can set.
        """
        return literal(boot_ms(), BigInteger) if self.is_sqlite else _PG_NOW_MS

    @property
    def lease_now(self) -> ColumnElement[int]:
        """The same for a statement that is built once; ``lease_values`` has its value at a moment."""
        return bindparam("boot_ms", type_=BigInteger) if self.is_sqlite else _PG_NOW_MS

    def lease_values(self) -> dict[str, int]:
        """Return the parameters that ``lease_now`` needs now."""
        return {"boot_ms": boot_ms()} if self.is_sqlite else {}

    def wall_clock(self) -> ColumnElement[int]:
        """Return the expression for now, in milliseconds since 1970, that timers are compared with."""
        return literal(epoch_ms(), BigInteger) if self.is_sqlite else _PG_NOW_MS

    def lease_boot(self) -> str | None:
        """Return the boot that ``lease_clock`` counts from, where it matters."""
        return boot_id() if self.is_sqlite else None

    def close(self) -> None:
        """Close every idle connection; a later use opens new ones."""
        self.engine.dispose()

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as wrong:
            raise named_error(wrong, self.engine) from wrong


_PG_NOW_MS: ColumnElement[int] = literal_column("(extract(epoch from clock_timestamp()) * 1000)::bigint", BigInteger)


def open_database(url: str, *, pool_size: int = 20, max_overflow: int = 10) -> Database:
    """Return the database behind ``url``; nothing is connected yet.

    Raises:
        SettingInvalid: the URL is not one, or its driver is not installed.
    """
    try:
        parsed = make_url(url)
        options: dict[str, Any] = {"pool_size": pool_size, "max_overflow": max_overflow, "pool_timeout": 5}
        if parsed.get_backend_name() == "sqlite":
            options["connect_args"] = {"timeout": BUSY_TIMEOUT_MS / 1000, "check_same_thread": False}
        elif parsed.get_backend_name() == "postgresql":
            options["connect_args"] = {"connect_timeout": 3}
            options["pool_pre_ping"] = True
        else:
            raise SettingInvalid(
                f"CALLBOARD_DATABASE_URL names {parsed.get_backend_name()}; Callboard speaks sqlite and postgresql."
            )
        engine = create_engine(parsed, **options)
    except (ArgumentError, NoSuchModuleError, ModuleNotFoundError, ValueError) as wrong:
        raise SettingInvalid(
            "CALLBOARD_DATABASE_URL cannot be used: give one like sqlite:////var/lib/callboard/callboard.db or "
            f"postgresql://user@host/name ({type(wrong).__name__})."
        ) from wrong
    if engine.dialect.name == "sqlite":
        _prepare_sqlite(engine)
    return Database(engine)


def _prepare_sqlite(engine: Engine) -> None:
    @event.listens_for(engine, "connect")
    def set_up(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # we say BEGIN ourselves, below
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=FULL")  # NORMAL may lose an answered 202 when the power goes
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.close()

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("callboard_write", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def named_error(wrong: SQLAlchemyError, engine: Engine) -> CallboardError | SQLAlchemyError:
    """Return what a database error means to a caller: busy, unreachable, or itself when it is our mistake."""
    text = str(getattr(wrong, "orig", wrong)).strip().splitlines()[0:1]
    said = re.sub(r"://[^@\s]*@", "://***@", text[0] if text else type(wrong).__name__)
    where = engine.url.render_as_string(hide_password=True)
    if engine.dialect.name == "sqlite" and ("locked" in said or "busy" in said):
        return DatabaseBusy(f"the database {where} is locked by another process; try again in a moment.")
    if isinstance(wrong, OperationalError) or getattr(wrong, "connection_invalidated", False):
        return DatabaseUnreachable(
            f"the database {where} does not answer ({said}); check CALLBOARD_DATABASE_URL and that the server is up "
            "and has space."
        )
    return wrong
