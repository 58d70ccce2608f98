"""Hooks into psycopg and SQLAlchemy."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from agents.tools.spans.collector import Span, is_collecting, span
from agents.tools.spans.sql import statement_name


def text_of(query: Any, cursor: Any) -> str:
    """Return the text of a driver's query; a composed one has placeholders where its values are."""
    if isinstance(query, str):
        return query
    if isinstance(query, bytes):
        return query.decode("utf-8", "replace")
    try:
        return _composed(query, cursor)
    except Exception:  # what the driver will refuse
        return type(query).__name__


def _composed(query: Any, cursor: Any) -> str:
    """Return the text of an object of ``psycopg.sql`` or ``psycopg2.sql``."""
    kind = type(query).__name__
    if kind == "Composed":
        return "".join(_composed(part, cursor) for part in query)
    return "%s" if kind == "Literal" else str(query.as_string(cursor))


def _name_of(cursor: Any) -> str | None:
    try:
        return str(cursor.connection.info.dbname)
    except Exception:  # of a closed connection
        return None


def statement_span(statement: str, cursor: Any) -> AbstractContextManager[Span]:
    """Note the body as a statement that a cursor of psycopg or psycopg2 executes."""
    facts = {"statement": statement, "database": _name_of(cursor), "system": "postgresql"}
    return span("sql", statement_name(statement), **facts)


def _psycopg(execute: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(execute)
    def hooked(cursor: Any, query: Any, *others: Any, **more: Any) -> Any:
        if not is_collecting("sql"):
            return execute(cursor, query, *others, **more)
        with statement_span(text_of(query, cursor), cursor) as open_span:
            done = execute(cursor, query, *others, **more)
            open_span.facts["rows"] = cursor.rowcount
            return done

    return hooked


def _psycopg_async(execute: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(execute)
    async def hooked(cursor: Any, query: Any, *others: Any, **more: Any) -> Any:
        if not is_collecting("sql"):
            return await execute(cursor, query, *others, **more)
        with statement_span(text_of(query, cursor), cursor) as open_span:
            done = await execute(cursor, query, *others, **more)
            open_span.facts["rows"] = cursor.rowcount
            return done

    return hooked


def _dialect(execute: Callable[..., Any]) -> Callable[..., Any]:
    """Hook a dialect's way to its driver, as SQLAlchemy's events cost every engine of the process more."""

    @functools.wraps(execute)
    def hooked(dialect: Any, cursor: Any, statement: str, *others: Any, **more: Any) -> Any:
        if not is_collecting("sql"):
            return execute(dialect, cursor, statement, *others, **more)
        facts = {"statement": statement, "database": _database_of(more.get("context"), others), "system": dialect.name}
        with span("sql", statement_name(statement), **facts) as open_span:
            done = execute(dialect, cursor, statement, *others, **more)
            open_span.facts["rows"] = getattr(cursor, "rowcount", None)
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
    ("psycopg", "ServerCursor.execute", _psycopg),
    ("psycopg", "AsyncServerCursor.execute", _psycopg_async),
    ("psycopg", "AsyncCursor.execute", _psycopg_async),
    ("psycopg", "AsyncCursor.executemany", _psycopg_async),
    (_DIALECT, "DefaultDialect.do_execute", _dialect),
    (_DIALECT, "DefaultDialect.do_executemany", _dialect),
    (_DIALECT, "DefaultDialect.do_execute_no_params", _dialect),
)
