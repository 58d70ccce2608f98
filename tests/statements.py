"""Statements are compiled once a test process: each test opens its own database, and compiling is most of its cost."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Dialect, Engine, create_engine
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
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


class OnePostgres(PGDialect_psycopg):
    """Postgres's dialect, likewise: all databases of the tests are of one server."""

    supports_statement_cache = True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OnePostgres)

    def __hash__(self) -> int:
        return hash(OnePostgres)


ONE: dict[type[Dialect], type[Dialect]] = {SQLiteDialect_pysqlite: OneSQLite, PGDialect_psycopg: OnePostgres}


def share_statements(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have engines on each kind of database use one cache of compiled statements from now on."""
    compiled: dict[type[Dialect], CompiledCacheType] = {kind: LRUCache(2000) for kind in ONE}

    def create(*arguments: Any, **options: Any) -> Engine:
        engine = create_engine(*arguments, **options)
        kind = type(engine.dialect)
        if kind in ONE:
            engine.dialect.__class__ = ONE[kind]
            engine._compiled_cache = compiled[kind]
        return engine

    monkeypatch.setattr("config.database.engine.create_engine", create)
