"""Hooks into psycopg and SQLAlchemy."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from config.spans.collector import is_collecting, span
from config.spans.sql import statement_name


def _text_of(query: Any) -> str:
    if isinstance(query, str):
        return query
    if isinstance(query, bytes):
        return query.decode("utf-8", "replace")
    try:
        return str(query.as_string(None))  # psycopg.sql
    except Exception:  # a composed statement may need its connection
        return type(query).__name__


def _name_of(cursor: Any) -> str | None:
    try:
        return str(cursor.connection.info.dbname)
    except Exception:  # of a closed connection
        return None


def _psycopg(execute: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(execute)
    def hooked(cursor: Any, query: Any, *others: Any, **more: Any) -> Any:
        if not is_collecting("sql"):
            return execute(cursor, query, *others, **more)
        statement = _text_of(query)
        facts = {"statement": statement, "database": _name_of(cursor), "system": "postgresql"}
        with span("sql", statement_name(statement), **facts) as one:
            done = execute(cursor, query, *others, **more)
            one.facts["rows"] = cursor.rowcount
            return done

    return hooked


def _psycopg_async(execute: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(execute)
    async def hooked(cursor: Any, query: Any, *others: Any, **more: Any) -> Any:
        if not is_collecting("sql"):
            return await execute(cursor, query, *others, **more)
        statement = _text_of(query)
        facts = {"statement": statement, "database": _name_of(cursor), "system": "postgresql"}
        with span("sql", statement_name(statement), **facts) as one:
            done = await execute(cursor, query, *others, **more)
            one.facts["rows"] = cursor.rowcount
            return done

    return hooked


def _dialect(execute: Callable[..., Any]) -> Callable[..., Any]:
    """Hook a dialect's way to its driver, as SQLAlchemy's events cost every engine of the process more."""

    @functools.wraps(execute)
    def hooked(dialect: Any, cursor: Any, statement: str, *others: Any, **more: Any) -> Any:
        if not is_collecting("sql"):
            return execute(dialect, cursor, statement, *others, **more)
        facts = {"statement": statement, "database": _database_of(more.get("context"), others), "system": dialect.name}
        with span("sql", statement_name(statement), **facts) as one:
            done = execute(dialect, cursor, statement, *others, **more)
            one.facts["rows"] = getattr(cursor, "rowcount", None)
            return done

    return hooked


def _database_of(context: Any, others: tuple[Any, ...]) -> str | None:
    context = context if context is not None else (others[-1] if others else None)
    engine = getattr(context, "engine", None)
    return None if engine is None else str(engine.url.database or "")


_DIALECT = "sqlalchemy.engine.default"
SQL_HOOKS = (
    ("psycopg", "Cursor.execute", _psycopg),
    ("psycopg", "Cursor.executemany", _psycopg),
    ("psycopg", "AsyncCursor.execute", _psycopg_async),
    ("psycopg", "AsyncCursor.executemany", _psycopg_async),
    (_DIALECT, "DefaultDialect.do_execute", _dialect),
    (_DIALECT, "DefaultDialect.do_executemany", _dialect),
    (_DIALECT, "DefaultDialect.do_execute_no_params", _dialect),
)
