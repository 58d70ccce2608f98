"""A database with the schema of this code, made once a test process, or once for all that are forked, and copied.

Migrating costs 60 ms on SQLite and 110 on Postgres, a copy one and 18.

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
from tests.backends import PostgresCluster

upgrade = config.database.migrate.upgrade


@lru_cache(maxsize=1)
def sqlite_template() -> Path:
    """Return the SQLite file that has the schema and no rows; nothing is connected to it."""
    path = Path(tempfile.mkdtemp(prefix="cbtemplate")) / "template.db"
    database = open_database(f"sqlite:///{path}")
    upgrade(database)
    with database.engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    return path


def upgrade_by_copy(database: Database) -> None:
    """Bring a database to the newest schema; a SQLite file that is not there yet becomes a copy."""
    name, version = database.engine.url.database, config.database.migrate.current_version(database)
    if version == config.database.migrate.HEAD:
        return
    if not database.is_sqlite or not name or name.startswith("file:") or version is not None:
        upgrade(database)
        return
    database.close()
    for leftover in (f"{name}-wal", f"{name}-shm"):
        Path(leftover).unlink(missing_ok=True)
    shutil.copyfile(sqlite_template(), name)


def postgres_template(cluster: PostgresCluster) -> str:
    """Make a migrated database and return its name; nothing is connected to it."""
    database = open_database(cluster.new_database())
    upgrade(database)
    database.close()
    return str(database.engine.url.database)


def use_template(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have ``migrate`` copy from now on."""
    monkeypatch.setattr(config.database.migrate, "upgrade", upgrade_by_copy)
