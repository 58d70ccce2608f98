"""The database: SQLite in the state folder, or Postgres, behind the same two verbs, read and write."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
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
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from config.clock import boot_id, boot_ms, epoch_ms
from config.database_errors import named_error
from config.errors import DatabaseBusy, SettingInvalid
from config.file_turn import FileTurn
from config.forks import ForkGate
from config.patience import one_limit
from config.turn import Turn

BUSY_TIMEOUT_MS = 4000
"""How long a caller waits for another writer, or for a connection, before it hears of it; a door answers within 5 s."""
LOCKED_TIMEOUT_MS = 500
"""How long it waits once a whole ``BUSY_TIMEOUT_MS`` was in vain: not every request's thread shall stand there."""


GONE_HOST = {
    "keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3, "tcp_user_timeout": 10_000,
}  # fmt: skip
"""A server whose machine vanished is given up after some ten seconds, not after the kernel's hours."""


class _WallMs(FunctionElement[int]):
    """Milliseconds since 1970 by the database's clock."""

    type = BigInteger()
    inherit_cache = True


@compiles(_WallMs, "postgresql")
def _postgres_now(*_: Any, **__: Any) -> str:
    return PG_NOW_MS


@compiles(_WallMs, "sqlite")
def _sqlite_now(*_: Any, **__: Any) -> str:
    return "callboard_now_ms()"  # ours, see _prepare_sqlite: all its callers are on one machine


WALL_MS = _WallMs()
"""Now, for every column that one machine writes and another compares: their own clocks may be hours apart."""
PG_NOW_MS = "(extract(epoch from clock_timestamp()) * 1000)::bigint"


class Database:
    """One engine and how its dialect begins, tells the time and fails."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.is_sqlite = engine.dialect.name == "sqlite"
        self._turns = Turn() if self.is_sqlite else None
        self._file_turn = FileTurn(engine.url.database if self.is_sqlite else None)
        self._patience_ms = self._left_ms = BUSY_TIMEOUT_MS
        # SQLite keeps its locks in memory of the process: a child that inherits an open file believes it holds them.
        self._in_use: AbstractContextManager[None] = ForkGate(engine.dispose) if self.is_sqlite else nullcontext()
        self._reading = engine if self.is_sqlite else engine.execution_options(isolation_level="AUTOCOMMIT")
        _prepare_sqlite(engine) if self.is_sqlite else _prepare_postgres(engine)

    @contextmanager
    def write(self, *, is_urgent: bool = False) -> Iterator[Connection]:
        """Yield a connection in a transaction that may write; commits at the end, or changes nothing.

        On SQLite the transaction is IMMEDIATE: one that begins by reading and then writes would fail
        whenever another process wrote in between, whatever the timeout. An urgent one, such as a heartbeat, goes
        before all others of this process.
        """
        with self._in_use, self._named_errors(), one_limit(), self._turn(is_urgent), self.engine.begin() as connection:
            if self.is_sqlite:  # here and not in SQLAlchemy's ``begin`` event: one listener slows every statement
                self._begin_writing(connection)
            yield connection

    @contextmanager
    def _turn(self, is_urgent: bool) -> Iterator[None]:
        """Let one thread of this process write at a time, and the processes in turns, where there is one writer.

        Waiting here costs less than SQLite's busy handler, which sleeps, and longer each time.
        """
        if self._turns is None:
            yield
            return
        patience_s, began_s = self._patience_ms / 1000, time.monotonic()
        if not self._turns.take(patience_s, is_urgent=is_urgent):
            where = self.engine.url.render_as_string(hide_password=True)
            raise DatabaseBusy(f"the database {where} is busy; try again in a moment.")
        try:
            with self._file_turn.taken(max(0.0, patience_s - time.monotonic() + began_s)):
                self._left_ms = max(1, int((patience_s - time.monotonic() + began_s) * 1000))
                yield
        finally:
            self._turns.give_back()

    def _begin_writing(self, connection: Connection) -> None:
        """Take SQLite's one write lock in what is left of the caller's patience; it is this thread's turn."""
        is_shorter = self._left_ms < BUSY_TIMEOUT_MS - 100
        if is_shorter:
            connection.exec_driver_sql(f"PRAGMA busy_timeout={self._left_ms}")
        try:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            self._patience_ms = BUSY_TIMEOUT_MS
        except DBAPIError:
            self._patience_ms = LOCKED_TIMEOUT_MS
            raise
        finally:
            if is_shorter:
                connection.exec_driver_sql(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Yield a connection that only reads."""
        with self._in_use, self._named_errors(), one_limit(), self._reading.connect() as connection:
            if self.is_sqlite:  # what is read is one moment's
                connection.exec_driver_sql("BEGIN")
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
        return WALL_MS

    def lease_boot(self) -> str | None:
        """Return the boot that ``lease_clock`` counts from, where it matters."""
        return boot_id() if self.is_sqlite else None

    def close(self) -> None:
        """Close every idle connection; a later use opens new ones."""
        self.engine.dispose()
        self._file_turn.close()

    def named(self, wrong: Exception) -> Exception:
        """Return what an error of the database means to a caller; any other error is returned as it is."""
        return named_error(wrong, self.engine) if isinstance(wrong, (DBAPIError, PoolTimeout)) else wrong

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except (DBAPIError, PoolTimeout) as wrong:
            raise self.named(wrong) from wrong


_PG_NOW_MS: ColumnElement[int] = literal_column(PG_NOW_MS, BigInteger)


def open_database(url: str, *, pool_size: int = 20, max_overflow: int = 10) -> Database:
    """Return the database behind ``url``; nothing is connected yet.

    Raises:
        SettingInvalid: the URL is not one, or its driver is not installed.
    """
    try:
        parsed = make_url(url)
        options: dict[str, Any] = {"pool_size": pool_size, "max_overflow": max_overflow}
        options["pool_timeout"] = BUSY_TIMEOUT_MS / 1000
        options["pool_use_lifo"] = True  # each connection of SQLite keeps what it read last, so let few of them read
        if parsed.get_backend_name() == "sqlite":
            options["connect_args"] = {"timeout": BUSY_TIMEOUT_MS / 1000, "check_same_thread": False}
        elif parsed.get_backend_name() == "postgresql":
            parsed = parsed.set(drivername="postgresql+psycopg")
            options["connect_args"] = dict(GONE_HOST)
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
    return Database(engine)


def _prepare_sqlite(engine: Engine) -> None:
    @event.listens_for(engine, "connect")
    def set_up(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # we say BEGIN ourselves
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=FULL")  # NORMAL may lose an answered 202 when the power goes
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.execute("PRAGMA cache_size=-512")  # KiB a connection; the kernel keeps the same pages, once for all
        cursor.close()
        connection.create_function("callboard_now_ms", 0, _own_now)


def _own_now() -> int:
    return epoch_ms()  # looked up at each call, so that a test can set the clock


def _prepare_postgres(engine: Engine) -> None:
    from config.postgres import connect  # the driver is an extra

    @event.listens_for(engine, "do_connect")
    def connect_in_time(_dialect: Any, _record: Any, args: Any, kwargs: Any) -> Any:
        return connect(*args, **kwargs)

    @event.listens_for(engine, "connect")
    def set_up(connection: Any, _record: Any) -> None:
        connection.autocommit = True
        connection.execute(f"SET lock_timeout = {BUSY_TIMEOUT_MS}")  # its default is to wait for ever
        connection.autocommit = False
