"""An empty database of each kind, with its schema."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from config.database.engine import Database, open_database
from config.database.migrate import migrate
from config.settings import Settings


@pytest.fixture
def database(settings: Settings, each_database_url: str) -> Iterator[Database]:
    migrate(settings.model_copy(update={"database_url": each_database_url}))
    opened = open_database(each_database_url)
    yield opened
    opened.close()
