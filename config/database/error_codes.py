"""What a database's error means to a caller, by its code: busy, away, full, read-only, damaged, or our mistake."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from config.errors import (
    CallboardError,
    DatabaseBusy,
    DatabaseDamaged,
    DatabaseFull,
    DatabaseReadOnly,
    DatabaseUnreachable,
)

Meaning = tuple[type[CallboardError], str]
"""A kind of error and its sentence, which names the place (``where``) and what the database said (``said``)."""

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
    "SQLITE_BUSY": _LOCKED, "SQLITE_LOCKED": _LOCKED, "SQLITE_PROTOCOL": _LOCKED, "SQLITE_FULL": _FULL,
    "SQLITE_READONLY": _READ_ONLY, "SQLITE_READONLY_DBMOVED": _MOVED, "SQLITE_CORRUPT": _DAMAGED,
    "SQLITE_NOTADB": _DAMAGED, "SQLITE_IOERR": _DISK, "SQLITE_CANTOPEN": _NO_FILE,
}  # fmt: skip
"""By result code; an extended one (``SQLITE_BUSY_SNAPSHOT``) means what its first two words mean, or stands here.
https://sqlite.org/rescode.html"""

_POSTGRES: Mapping[str, Meaning] = {
    "25006": _READ_ONLY,  # read_only_sql_transaction: set so, or a hot standby
    "25P03": _BUSY,  # idle_in_transaction_session_timeout
    "40001": _BUSY, "40P01": _BUSY, "55P03": _BUSY, "57014": _BUSY,  # serialization, deadlock, lock and query timeouts
    "53100": _FULL, "53200": _BUSY, "53300": _BUSY, "53400": _BUSY,  # disk, memory, connections, a configured limit
    "57P01": _AWAY, "57P02": _AWAY, "57P03": _AWAY, "57P05": _AWAY,  # shut down, crashed, starting, idle too long
    "58030": _DISK, "XX001": _DAMAGED, "XX002": _DAMAGED,  # io_error, data_corrupted, index_corrupted
}  # fmt: skip
"""By SQLSTATE. https://www.postgresql.org/docs/current/errcodes-appendix.html"""


def named_error(wrong: SQLAlchemyError, engine: Engine) -> CallboardError | SQLAlchemyError:
    """Return what a database error means to a caller, or the error itself when it is our mistake."""
    meaning = _meaning(wrong)
    if meaning is None:
        return wrong
    kind, sentence = meaning
    return kind(sentence.format(where=engine.url.render_as_string(hide_password=True), said=_said(wrong)))


def _meaning(wrong: SQLAlchemyError) -> Meaning | None:
    if isinstance(wrong, PoolTimeout):
        return _POOL
    driver_error = getattr(wrong, "orig", None)
    name = getattr(driver_error, "sqlite_errorname", None) or ""
    state = getattr(driver_error, "sqlstate", None) or ""
    known = _SQLITE.get(name) or _SQLITE.get("_".join(name.split("_")[:2])) or _POSTGRES.get(state)
    if known is not None:
        return known
    # One who cannot connect is told no code. Class 08 is a broken connection, whatever the driver calls it.
    is_away = isinstance(wrong, OperationalError) or state.startswith("08")
    return _AWAY if is_away or (isinstance(wrong, DBAPIError) and wrong.connection_invalidated) else None


def _said(wrong: SQLAlchemyError) -> str:
    """Return the first line of what the database said, without a password."""
    lines = str(getattr(wrong, "orig", wrong)).strip().splitlines()
    return re.sub(r"://[^@\s]{0,500}@", "://***@", lines[0][:4000] if lines else type(wrong).__name__)
