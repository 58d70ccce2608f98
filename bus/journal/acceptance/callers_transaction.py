"""The transaction of an application that shares Callboard's database: a run is accepted in it.

The run exists once the caller commits, and a rollback leaves nothing of it. The outbox row is in the same commit, so a
broker that is down, or a process that dies right behind the commit, loses no wake-up.
"""

from __future__ import annotations

import copy
import os
import sqlite3
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, event, literal, select, text
from sqlalchemy.exc import DBAPIError, PendingRollbackError
from sqlalchemy.pool import StaticPool

from bus.journal.errors import CONNECTION_UNUSABLE
from bus.journal.live.signatures import SECRET_NAME
from config.database.engine import Database, define_functions
from config.database.errors import DatabaseBusy
from config.database.shared_secret import shared_secret
from config.database.tables import secrets
from config.forks import forked_s

WHAT = "a Connection or Session of SQLAlchemy, `django.db.connection`, or a connection of psycopg, psycopg2 or sqlite3"
ASYNC = "is asynchronous; call it in `await connection.run_sync(lambda own: runner.run(..., connection=own))`."
CLOSED = "is closed; open a transaction, and pass its connection."
AUTOCOMMIT = (
    "commits each statement by itself (autocommit), so that the run would exist without what you write; begin a "
    "transaction first: `with engine.begin() as connection:`, or `with transaction.atomic():`."
)
FORKED = (
    "was opened before this process was forked, and is the parent's; dispose of the engine, or close the connections, "
    "after the fork, and pass one of this process."
)
ANOTHER = (
    "is one to another database than CALLBOARD_DATABASE_URL names; without a shared database start the run after the "
    "commit, with an idempotency key."
)
FAILED = "is in a transaction that has failed; roll back first, and begin another one."
_IN_FAILED = "25P02"
"""SQLSTATE of a statement in a transaction that has failed."""
_IDLE = 0
"""libpq's status of a connection without a transaction."""

_pids: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
"""By a driver's connection, see ``_first_pid``."""


class CallersTransaction:
    """The open transaction of a connection that the caller commits, rolls back and closes."""

    def __init__(self, handle: Any, database: Database) -> None:
        """Check the connection by reads alone.

        Raises:
            CONNECTION_UNUSABLE: it is none, closed, in autocommit or in a failed transaction, of another database, or
                the parent process's.
            DatabaseBusy: another writer holds the SQLite file.
        """
        self._given = handle
        self._database = database
        try:
            self.connection = self._joined(handle)
            self._require_transaction()
            self._require_same_database()
        except PendingRollbackError as error:
            raise CONNECTION_UNUSABLE(f"the connection {FAILED}") from error
        except (DBAPIError, sqlite3.Error) as error:
            if isinstance(named := database.named(error), DatabaseBusy):
                raise named from error
            reason = FAILED if _has_failed(error) else f"{CLOSED} ({type(error).__name__})"
            raise CONNECTION_UNUSABLE(f"the connection {reason}") from error

    def after_commit(self, publish: Callable[[], None]) -> None:
        """Call ``publish`` at the caller's commit, where the kind of connection says so; else the relay looks itself.

        SQLAlchemy's event of a connection precedes the commit.
        """
        if _is_django(self._given):
            self._given.on_commit(publish)
        elif _is_session(self._given):
            event.listen(self._given, "after_commit", lambda _session: publish(), once=True)
        elif isinstance(self._given, Connection):
            event.listen(self._given, "commit", lambda _connection: publish(), once=True)

    def _joined(self, handle: Any) -> Connection:
        """Return the connection in SQLAlchemy's form."""
        if type(handle).__module__.startswith("sqlalchemy.ext.asyncio"):
            raise CONNECTION_UNUSABLE(f"the connection {ASYNC}")
        if _is_session(handle):
            handle = handle.connection()
        if isinstance(handle, Connection):
            if handle.closed or handle.invalidated:
                raise CONNECTION_UNUSABLE(f"the connection {CLOSED}")
            self._require_own(handle.connection.dbapi_connection, _opened_s(handle))
            handle.execute(select(literal(1)))  # begins the transaction
            return handle
        if _is_django(handle):
            if not handle.in_atomic_block and handle.get_autocommit():
                raise CONNECTION_UNUSABLE(f"the connection {AUTOCOMMIT}")
            handle.ensure_connection()
            handle = handle.connection
        driver = type(handle).__module__.partition(".")[0]
        if driver not in ("psycopg", "psycopg2", "sqlite3") and not isinstance(handle, sqlite3.Connection):
            raise CONNECTION_UNUSABLE(f"`connection` is a {type(handle).__name__}; pass {WHAT}.")
        if getattr(handle, "closed", False):
            raise CONNECTION_UNUSABLE(f"the connection {CLOSED}")
        self._require_own(handle, None)
        return self._wrapped(handle)

    def _wrapped(self, driven: Any) -> Connection:
        """Return SQLAlchemy's form of a driver's connection, which never ends the transaction."""
        is_sqlite = isinstance(driven, sqlite3.Connection)
        if is_sqlite != self._database.is_sqlite:
            raise CONNECTION_UNUSABLE(f"the connection {ANOTHER}")
        with self._database.read():
            pass  # the first connection tells the dialect the server's version
        dialect: Any = copy.copy(self._database.engine.dialect)
        if type(driven).__module__.startswith("psycopg2"):
            from sqlalchemy.dialects.postgresql.psycopg2 import PGDialect_psycopg2

            dialect = PGDialect_psycopg2()  # type: ignore[no-untyped-call]  # SQLAlchemy has no types there
            dialect.dbapi = dialect.import_dbapi()
            dialect.server_version_info = self._database.engine.dialect.server_version_info
        dialect.execution_ctx_cls = _with_tuples(dialect.execution_ctx_cls)
        dialect.do_rollback = dialect.do_commit = dialect.do_close = lambda _connection: None
        pool = StaticPool(lambda: driven, reset_on_return=None, dialect=dialect)
        return Engine(pool, dialect, self._database.engine.url).connect()

    def _require_own(self, driven: Any, opened_s: float | None) -> None:
        """Check that the connection was opened in this process."""
        predates_fork = opened_s is not None and (forked := forked_s()) is not None and opened_s < forked
        if predates_fork or _first_pid(driven) != os.getpid():
            raise CONNECTION_UNUSABLE(f"the connection {FORKED}")

    def _require_transaction(self) -> None:
        """Check that the driver's connection is in a transaction; begin SQLite's, whose driver begins with a write."""
        driven: Any = self.connection.connection.dbapi_connection
        if isinstance(driven, sqlite3.Connection):
            if not driven.in_transaction:
                if driven.isolation_level is None:
                    raise CONNECTION_UNUSABLE(f"the connection {AUTOCOMMIT}")
                self.connection.exec_driver_sql("BEGIN IMMEDIATE")  # else releasing a savepoint would commit
            define_functions(driven)
            return
        info = getattr(driven, "info", None)
        status = getattr(info, "transaction_status", None)
        if getattr(driven, "autocommit", False) and status == _IDLE:
            raise CONNECTION_UNUSABLE(f"the connection {AUTOCOMMIT}")

    def _require_same_database(self) -> None:
        own_id = self._own_id()  # first, since it may make the secret that the caller's connection reads then
        if self.connection.dialect.name != self._database.engine.dialect.name or self._id() != own_id:
            raise CONNECTION_UNUSABLE(f"the connection {ANOTHER}")

    def _id(self) -> str | None:
        """Return what differs between databases: the file, or a secret on Postgres; None: it has none."""
        if self._database.is_sqlite:
            rows = self.connection.execute(text("PRAGMA database_list")).all()
            return next((str(Path(file).resolve()) for _, name, file in rows if name == "main" and file), None)
        if self.connection.execute(text("SELECT to_regclass('secrets')")).scalar() is None:
            return None  # to ask a table that is not there would end the caller's transaction
        return self.connection.execute(select(secrets.c.value).where(secrets.c.name == SECRET_NAME)).scalar()

    def _own_id(self) -> str:
        file = self._database.engine.url.database
        is_sqlite = self._database.is_sqlite
        return str(Path(file or "").resolve()) if is_sqlite else shared_secret(self._database, SECRET_NAME)


def _first_pid(driven: Any) -> int:
    """Return the process in which a driver's connection was first used here."""
    if not isinstance(driven, sqlite3.Connection):
        return _pids.setdefault(driven, os.getpid())
    with suppress(sqlite3.OperationalError):  # weak references to it are impossible; what it defines, a child inherits
        return int(_as_tuples(driven.cursor()).execute("SELECT callboard_first_pid()").fetchone()[0])
    pid = os.getpid()
    driven.create_function("callboard_first_pid", 0, lambda: pid)
    return pid


def _has_failed(error: Exception) -> bool:
    """Return whether a statement was refused since its transaction on Postgres had failed before."""
    driver_error = getattr(error, "orig", None)
    return _IN_FAILED in (getattr(driver_error, "sqlstate", None), getattr(driver_error, "pgcode", None))


def _with_tuples(context: Any) -> Any:
    """Return a dialect's execution context whose rows are tuples, whatever rows the caller's connection makes."""

    class Tuples(context):  # type: ignore[misc]  # a class that is known at run time alone
        def create_default_cursor(self) -> Any:
            connection = self._dbapi_connection
            if type(connection.dbapi_connection).__module__.startswith("psycopg2"):
                return connection.cursor(cursor_factory=self.dialect.dbapi.extensions.cursor)
            return _as_tuples(super().create_default_cursor())

    return Tuples


def _as_tuples(cursor: Any) -> Any:
    """Return the cursor of psycopg or sqlite3, which makes tuples from now on."""
    if isinstance(cursor, sqlite3.Cursor):
        cursor.row_factory = None
    else:
        from psycopg.rows import tuple_row

        cursor.row_factory = tuple_row
    return cursor


def _is_django(handle: Any) -> bool:
    return hasattr(handle, "in_atomic_block") and hasattr(handle, "on_commit")


def _is_session(handle: Any) -> bool:
    """Return whether it is a Session, or a scoped one, of SQLAlchemy's ORM, which Callboard itself never imports."""
    return hasattr(handle, "get_bind") and hasattr(handle, "connection")


def _opened_s(connection: Connection) -> float | None:
    """Return when SQLAlchemy opened the driver's connection, in seconds since 1970."""
    return getattr(getattr(connection.connection, "_connection_record", None), "starttime", None)
