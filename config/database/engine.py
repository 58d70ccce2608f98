"""The database: SQLite in the state folder, or Postgres, behind one interface with ``read`` and ``write``."""

from __future__ import annotations

import os
import sqlite3
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
    func,
    literal,
    select,
)
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import GenericFunction

from config.clock import boot_id, boot_ms, epoch_ms
from config.database.error_codes import named_error
from config.database.errors import STATE_DIR_GONE, DatabaseBusy
from config.database.timeouts import left_s, one_limit
from config.database.turn import FairLock, FileTurn
from config.errors import SettingInvalid
from config.forks import ForkGate

BUSY_TIMEOUT_MS = 4000
"""How long a caller waits for another writer or for a connection; an HTTP request is answered within 5 s."""
LOCKED_TIMEOUT_MS = 500
"""How long it waits after a timeout of ``BUSY_TIMEOUT_MS``, so that not every request's thread blocks for long."""


TCP_TIMEOUTS = {
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
"""A server whose machine vanished is given up after about ten seconds; the kernel's default is hours."""


class _WallMs(GenericFunction[int]):
    """Milliseconds since 1970 by the database's clock; SQLite's function is ours, see ``_prepare_sqlite``."""

    name = "callboard_now_ms"
    type = BigInteger()
    inherit_cache = True


@compiles(_WallMs, "postgresql")
def _postgres_now(*_: Any, **__: Any) -> str:
    return "(extract(epoch from clock_timestamp()) * 1000)::bigint"


WALL_MS = _WallMs()
"""Now, for every column that one machine writes and another compares: the machines' clocks may differ by hours."""
READ_ONCE = select(WALL_MS).scalar_subquery()
"""The same, read once a statement, so that Postgres looks in an index for what is before or after it."""


class Database:
    """One engine, with its dialect's transactions, clock and errors."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.is_sqlite = engine.dialect.name == "sqlite"
        self._turns = FairLock() if self.is_sqlite else None
        file = engine.url.database if self.is_sqlite else None
        self._file = file if file and not file.startswith((":memory:", "file:")) else None
        self._inode: tuple[int, int] | None = None
        """Of the file that this process opened first, whether to read or to write."""
        self._file_turn = FileTurn(self._file)
        self._patience_ms = self._left_ms = BUSY_TIMEOUT_MS
        # SQLite keeps its locks in process memory: a child that inherits an open file would believe it holds them.
        self._in_use: AbstractContextManager[None] = ForkGate(engine.dispose) if self.is_sqlite else nullcontext()
        self._reading = engine if self.is_sqlite else engine.execution_options(isolation_level="AUTOCOMMIT")
        _prepare_sqlite(engine) if self.is_sqlite else _prepare_postgres(engine)
        if self._file is not None:
            event.listen(engine, "connect", self._keep_inode)  # behind what opens the file

    @contextmanager
    def write(self, *, is_urgent: bool = False, wait_ms: int | None = None) -> Iterator[Connection]:
        """Yield a connection in a transaction that may write; it commits at the end, or rolls back on an error.

        On SQLite the transaction is IMMEDIATE: a transaction that reads before it writes would fail, whatever the
        timeout, if another process wrote in between. An urgent one, such as a heartbeat, precedes all waiting
        transactions of this process. ``wait_ms`` replaces SQLite's usual timeout: a migration takes longer than that.
        """
        turn = self._turn(is_urgent, wait_ms or self._patience_ms)
        with self._in_use, self.naming_errors(), one_limit(), turn, self.engine.begin() as connection:
            if self.is_sqlite:  # here and not in SQLAlchemy's ``begin`` event: one listener slows every statement
                self._begin_writing(connection)
            yield connection

    @contextmanager
    def _turn(self, is_urgent: bool, patience_ms: int) -> Iterator[None]:
        """On SQLite, let one thread of this process write at a time, and processes in turn.

        Waiting here is cheaper than SQLite's busy handler, which sleeps longer each time.
        """
        if self._turns is None:
            yield
            return
        patience_s, began_s = min(patience_ms / 1000, left_s()), time.monotonic()
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
        """Take SQLite's write lock within the rest of the caller's timeout.

        Raises:
            STATE_DIR_GONE: the file is another one than this process opened, or none.
        """
        self._require_own_file()
        is_another = not BUSY_TIMEOUT_MS - 100 <= self._left_ms <= BUSY_TIMEOUT_MS
        if is_another:
            connection.exec_driver_sql(f"PRAGMA busy_timeout={self._left_ms}")
        try:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            self._patience_ms = BUSY_TIMEOUT_MS
        except DBAPIError:
            self._patience_ms = LOCKED_TIMEOUT_MS
            raise
        finally:
            if is_another:
                connection.exec_driver_sql(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")

    def _require_own_file(self) -> None:
        """An open file outlives its name: a commit to one that was deleted succeeds, and is lost with the process."""
        if self._file is None:
            return
        if self._inode is None or self._inode_now() != self._inode:
            raise STATE_DIR_GONE(file=self._file)

    def _keep_inode(self, _connection: Any, _record: Any) -> None:
        self._inode = self._inode or self._inode_now()

    def _inode_now(self) -> tuple[int, int] | None:
        """Return the device and number of the file that has the name now; None where there is none."""
        try:
            facts = os.stat(self._file or "")
        except (FileNotFoundError, NotADirectoryError):
            return None
        return facts.st_dev, facts.st_ino

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Yield a connection for reading."""
        with self._in_use, self.naming_errors(), one_limit(), self._reading.connect() as connection:
            if self.is_sqlite:  # one snapshot for all statements
                connection.exec_driver_sql("BEGIN")
            yield connection

    def lease_clock(self) -> ColumnElement[int]:
        """Return the expression that leases are compared with, in milliseconds.

        Postgres has one clock for all its clients. SQLite uses each caller's wall clock, so leases use the machine's
        boot clock there, which cannot be set.
        """
        return literal(boot_ms(), BigInteger) if self.is_sqlite else WALL_MS

    @property
    def lease_now(self) -> ColumnElement[int]:
        """``lease_clock`` for a statement that is built once; ``lease_values`` supplies its value."""
        return bindparam("boot_ms", type_=BigInteger) if self.is_sqlite else WALL_MS

    def lease_values(self) -> dict[str, int]:
        """Return the current parameters of ``lease_now``."""
        return {"boot_ms": boot_ms()} if self.is_sqlite else {}

    def lease_boot(self) -> str | None:
        """Return the boot that ``lease_clock`` counts from; None on Postgres."""
        return boot_id() if self.is_sqlite else None

    def close(self) -> None:
        """Close all idle connections; a later use opens new ones."""
        self.engine.dispose()
        self._file_turn.close()

    def named(self, error: Exception) -> Exception:
        """Return the error's named form if it is an error of the database, else the error itself."""
        return named_error(error, self.engine) if isinstance(error, (DBAPIError, PoolTimeout)) else error

    @contextmanager
    def naming_errors(self) -> Iterator[None]:
        """Raise the errors of the database that occur in this context in their named form."""
        try:
            yield
        except (DBAPIError, PoolTimeout) as error:
            raise self.named(error) from error


def wall_ms(connection: Connection) -> int:
    """Return now in milliseconds since 1970, by the clock that timers are compared with."""
    return int(connection.execute(select(WALL_MS)).scalar_one())


def allowed_connections(connection: Connection) -> int:
    """Return how many connections Postgres allows all that are no superusers together."""
    settings = "max_connections", "superuser_reserved_connections"
    most, reserved = connection.execute(select(*(func.current_setting(name) for name in settings))).one()
    return int(most) - int(reserved)


def open_database(url: str, *, pool_size: int = 20, max_overflow: int = 10) -> Database:
    """Return the database of ``url``, not connected yet.

    Raises:
        SettingInvalid: the URL is malformed, or its driver is not installed.
    """
    try:
        parsed = make_url(url)
        options: dict[str, Any] = {"pool_size": pool_size, "max_overflow": max_overflow}
        options["pool_timeout"] = BUSY_TIMEOUT_MS / 1000
        options["hide_parameters"] = True  # values of a statement that fails have no place in logs
        options["pool_use_lifo"] = True  # every SQLite connection has its own page cache, so reuse few connections
        if parsed.get_backend_name() == "sqlite":
            options["connect_args"] = {"timeout": BUSY_TIMEOUT_MS / 1000, "check_same_thread": False}
        elif parsed.get_backend_name() == "postgresql":
            parsed = parsed.set(drivername="postgresql+psycopg")
            options["connect_args"] = dict(TCP_TIMEOUTS)
            options["pool_pre_ping"] = True
        else:
            raise SettingInvalid(f"CALLBOARD_DATABASE_URL names {parsed.get_backend_name()}; use sqlite or postgresql.")
        engine = create_engine(parsed, **options)
    except (ArgumentError, NoSuchModuleError, ModuleNotFoundError, ValueError) as error:
        raise SettingInvalid(
            "CALLBOARD_DATABASE_URL cannot be used: give one like sqlite:////var/lib/callboard/callboard.db or "
            f"postgresql://user@host/name ({type(error).__name__})."
        ) from error
    return Database(engine)


def _prepare_sqlite(engine: Engine) -> None:
    @event.listens_for(engine, "connect")
    def set_up(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # Database issues BEGIN itself
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=FULL")  # NORMAL may lose an answered 202 at a power failure
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.execute("PRAGMA cache_size=-512")  # KiB a connection; the kernel caches the same pages for all
        cursor.close()
        define_functions(connection)


def define_functions(connection: sqlite3.Connection) -> None:
    """Define the functions that Callboard's statements call, on any connection to its SQLite file."""
    connection.create_function(_WallMs.name, 0, _own_now)  # all its callers are on one machine


def _own_now() -> int:
    return epoch_ms()  # looked up at each call, so that a test can set the clock


def _prepare_postgres(engine: Engine) -> None:
    from config.database.postgres import connect  # the driver is an extra

    @event.listens_for(engine, "do_connect")
    def connect_in_time(_dialect: Any, _record: Any, args: Any, kwargs: Any) -> Any:
        return connect(*args, **kwargs)

    @event.listens_for(engine, "connect")
    def set_up(connection: Any, _record: Any) -> None:
        connection.autocommit = True
        connection.execute(f"SET lock_timeout = {BUSY_TIMEOUT_MS}")  # the default is to wait for ever
        connection.autocommit = False
