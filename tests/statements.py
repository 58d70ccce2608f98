"""Statements are compiled once a test process: each test opens its own database, and compiling is most of its cost."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine, create_engine
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.engine.interfaces import CompiledCacheType
from sqlalchemy.util import LRUCache


class OneSQLite(SQLiteDialect_pysqlite):
    """SQLite's dialect; each is equal to every other, because the key of a compiled statement names its dialect."""

    supports_statement_cache = True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OneSQLite)

    def __hash__(self) -> int:
        return hash(OneSQLite)


def share_statements(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have engines on SQLite use one cache of compiled statements from now on."""
    compiled: CompiledCacheType = LRUCache(2000)

    def create(*arguments: Any, **options: Any) -> Engine:
        engine = create_engine(*arguments, **options)
        if type(engine.dialect) is SQLiteDialect_pysqlite:
            engine.dialect.__class__ = OneSQLite
            engine._compiled_cache = compiled
        return engine

    monkeypatch.setattr("config.database.engine.create_engine", create)
