"""Map a database's error codes to named errors: busy, unreachable, full, read-only, damaged."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from config.database.errors import (
    DatabaseBusy,
    DatabaseDamaged,
    DatabaseFull,
    DatabaseReadOnly,
    DatabaseUnreachable,
)
from config.errors import CallboardError

Meaning = tuple[type[CallboardError], str]
"""An error class and its message, with the database's URL (``where``) and its own message (``said``)."""

_BUSY: Meaning = (DatabaseBusy, "the database {where} is busy ({said}); try again in a moment.")
_LOCKED: Meaning = (DatabaseBusy, "the database {where} is locked by another process; try again in a moment.")
_POOL: Meaning = (
    DatabaseBusy,
    "every connection to the database {where} is in use; try again in a moment, or raise CALLBOARD_DATABASE_POOL_SIZE.",
)
_AWAY: Meaning = (
    DatabaseUnreachable,
    "the database {where} does not answer ({said}); check CALLBOARD_DATABASE_URL and that the server is up and has "
    "space.",
)
_NO_FILE: Meaning = (
    DatabaseUnreachable,
    "the database {where} cannot be opened ({said}); see that its folder exists and that this user may write to it.",
)
_DISK: Meaning = (
    DatabaseUnreachable,
    "the disk of the database {where} fails ({said}); see that it is mounted and has space, and what the system's log "
    "says of it.",
)
_FULL: Meaning = (
    DatabaseFull,
    "the database {where} is full ({said}) and nothing was changed; make space on its disk and try again.",
)
_READ_ONLY: Meaning = (
    DatabaseReadOnly,
    "the database {where} can only be read ({said}) and nothing was changed; see that this user may write to it, and "
    "that CALLBOARD_DATABASE_URL names the primary and not a standby.",
)
_MOVED: Meaning = (
    DatabaseReadOnly,
    "the file of the database {where} was moved or removed while it was open; put it back and start Callboard again.",
)
_DAMAGED: Meaning = (
    DatabaseDamaged,
    "the database {where} is damaged ({said}); stop Callboard, keep a copy of it as it is, and restore a backup.",
)

_SQLITE: Mapping[str, Meaning] = {
    **dict.fromkeys(("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_PROTOCOL"), _LOCKED),
    **dict.fromkeys(("SQLITE_CORRUPT", "SQLITE_NOTADB"), _DAMAGED),
    "SQLITE_FULL": _FULL,
    "SQLITE_READONLY": _READ_ONLY,
    "SQLITE_READONLY_DBMOVED": _MOVED,
    "SQLITE_IOERR": _DISK,
    "SQLITE_CANTOPEN": _NO_FILE,
}
"""By result code; an extended one (``SQLITE_BUSY_SNAPSHOT``) means what its first two words mean, or stands here.
https://sqlite.org/rescode.html"""

_POSTGRES: Mapping[str, Meaning] = {
    "25006": _READ_ONLY,  # read_only_sql_transaction: set so, or a hot standby
    "25P03": _BUSY,  # idle_in_transaction_session_timeout
    **dict.fromkeys(("40001", "40P01", "55P03", "57014"), _BUSY),  # serialization, deadlock, lock and query timeouts
    "53100": _FULL,  # disk
    **dict.fromkeys(("53200", "53300", "53400"), _BUSY),  # memory, connections, a configured limit
    **dict.fromkeys(("57P01", "57P02", "57P03", "57P05"), _AWAY),  # shut down, crashed, starting, idle too long
    "58030": _DISK,  # io_error
    **dict.fromkeys(("XX001", "XX002"), _DAMAGED),  # data_corrupted, index_corrupted
}
"""By SQLSTATE. https://www.postgresql.org/docs/current/errcodes-appendix.html"""


def named_error(error: SQLAlchemyError, engine: Engine) -> CallboardError | SQLAlchemyError:
    """Return the named error of a database error, or the error itself if it is a mistake in our SQL."""
    meaning = _meaning(error)
    if meaning is None:
        return error
    kind, sentence = meaning
    return kind(sentence.format(where=engine.url.render_as_string(hide_password=True), said=_said(error)))


def _meaning(error: SQLAlchemyError) -> Meaning | None:
    if isinstance(error, PoolTimeout):
        return _POOL
    driver_error = getattr(error, "orig", None)
    name = getattr(driver_error, "sqlite_errorname", None) or ""
    state = getattr(driver_error, "sqlstate", None) or ""
    meaning = _SQLITE.get(name) or _SQLITE.get("_".join(name.split("_")[:2])) or _POSTGRES.get(state)
    if meaning is not None:
        return meaning
    # A failed connection attempt has no code. Class 08 is a broken connection, whatever the driver calls it.
    is_away = isinstance(error, OperationalError) or state.startswith("08")
    return _AWAY if is_away or (isinstance(error, DBAPIError) and error.connection_invalidated) else None


def _said(error: SQLAlchemyError) -> str:
    """Return the first line of the database's message, without passwords."""
    lines = str(getattr(error, "orig", error)).strip().splitlines()
    return re.sub(r"://[^@\s]{0,500}@", "://***@", lines[0][:4000] if lines else type(error).__name__)
