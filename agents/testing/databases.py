"""SQLite databases for kits: a database is emptied and reused, because its engine has compiled the statements already.

A kit's other files are in the database's folder, so that consecutive kits have equal settings, and observers and tools
are looked up once.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import lru_cache
from pathlib import Path

from sqlalchemy import event

from config.database.engine import Database, open_database
from config.database.migrate import migrate
from config.forks import after_fork
from config.settings import Settings

_free: list[Database] = []


def take_database() -> Database:
    """Return an empty database with the schema of this code, for one user at a time."""
    database = _free.pop() if _free else _new_database()
    place = Path(str(database.engine.url.database))
    for leftover in place.parent.iterdir():
        if leftover.is_dir():
            shutil.rmtree(leftover)
        elif leftover != place:  # which its engine knows by its inode
            leftover.unlink(missing_ok=True)
    place.write_bytes(_schema())
    return database


def give_back(database: Database) -> None:
    """Make a closed database available for the next kit, which empties it and its folder."""
    _free.append(database)


def _new_database() -> Database:
    folder = tempfile.mkdtemp(prefix="callboard-kit-")
    atexit.register(_remove, folder, os.getpid())
    database = open_database(f"sqlite:///{folder}/callboard.db")
    # No test turns the power off, so no commit waits for the disk.
    event.listen(database.engine, "connect", lambda connection, _: connection.execute("PRAGMA synchronous=OFF"))
    return database


@lru_cache(maxsize=1)
def _schema() -> bytes:
    """Return the bytes of an empty database file, since migrating takes longer than most tests."""
    with tempfile.TemporaryDirectory(prefix="callboard-kit-") as folder:
        file = Path(folder) / "empty.db"
        migrate(
            Settings(
                _env_file=None,  # type: ignore[call-arg]  # pydantic-settings' own
                state_dir=Path(folder),
                database_url=f"sqlite:///{file}",
            )
        )
        return file.read_bytes()


def _remove(folder: str, pid: int) -> None:
    if os.getpid() == pid:
        shutil.rmtree(folder, ignore_errors=True)


@after_fork
def _forget() -> None:
    _free.clear()
