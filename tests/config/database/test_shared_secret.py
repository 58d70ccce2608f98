"""A deployment's secrets: made once, and the same in every process."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from config.database.engine import Database, open_database
from config.database.errors import DatabaseReadOnly
from config.database.migrate import migrate
from config.database.shared_secret import shared_secret
from config.settings import Settings


def test_all_processes_get_the_same_secret_however_many_are_first(database: Database):
    with ThreadPoolExecutor(8) as pool:
        secrets = set(pool.map(lambda _: shared_secret(database, "live-events"), range(16)))

    (secret,) = secrets
    assert len(bytes.fromhex(secret)) == 32
    assert shared_secret(database, "live-events") == secret
    assert shared_secret(database, "another") != secret


def test_a_secret_that_cannot_be_made_is_said(settings: Settings):
    migrate(settings)
    path = settings.database.removeprefix("sqlite:///")
    reading, writing = open_database(f"sqlite:///file:{path}?mode=ro&uri=true"), open_database(settings.database)

    with pytest.raises(DatabaseReadOnly):
        shared_secret(reading, "live-events")
    secret = shared_secret(writing, "live-events")

    assert shared_secret(reading, "live-events") == secret
    reading.close()
    writing.close()
