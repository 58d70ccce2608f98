"""A database with the schema of this code, made once a test process and copied: migrating costs 60 ms, a copy one.

What is copied was made by the migrations themselves; tests/config/database/test_migrate.py tries them on their own.
"""

from __future__ import annotations

import shutil
import tempfile
from functools import lru_cache
from pathlib import Path

import pytest

import config.database.migrate
from config.database.engine import Database, open_database

upgrade = config.database.migrate.upgrade


@lru_cache(maxsize=1)
def _template() -> Path:
    path = Path(tempfile.mkdtemp(prefix="cbtemplate")) / "template.db"
    database = open_database(f"sqlite:///{path}")
    upgrade(database)
    with database.engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    return path


def upgrade_by_copy(database: Database) -> None:
    """Bring a database to the newest schema; a SQLite file that is not there yet becomes a copy."""
    name = database.engine.url.database
    if (
        not database.is_sqlite
        or not name
        or name.startswith("file:")
        or config.database.migrate.current_version(database) is not None
    ):
        upgrade(database)
        return
    database.close()
    for leftover in (f"{name}-wal", f"{name}-shm"):
        Path(leftover).unlink(missing_ok=True)
    shutil.copyfile(_template(), name)


def use_template(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have ``migrate`` copy for the length of a test."""
    monkeypatch.setattr(config.database.migrate, "upgrade", upgrade_by_copy)
