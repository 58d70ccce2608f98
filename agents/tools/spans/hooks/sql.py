"""Hooks into psycopg and SQLAlchemy."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Mapping, Sized
from contextlib import AbstractContextManager, suppress
from typing import Any

from agents.tools.spans.collector import Span, is_collecting, span, statement_name


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

# --- psycopg2


Arguments = tuple[Any, ...]
_LITERAL = re.compile(r"""[^\w\s.,"*]|\b\d|\b(?:true|false|null)\b""", re.IGNORECASE)
"""Where the values of a statement may begin."""


def _given(args: Arguments, more: Mapping[str, Any], index: int, name: str) -> Any:
    return args[index] if len(args) > index else more.get(name, "")


def _statement(cursor: Any, query: Any) -> str:
    """Return a statement's text; of bytes, which ``mogrify`` makes with the parameters in them, the start only."""
    if not isinstance(query, bytes):
        return text_of(query, cursor)
    text = query.decode("utf-8", "replace")
    literal = _LITERAL.search(text)
    return text if literal is None else f"{text[: literal.start()].rstrip()} …"


def _query(cursor: Any, args: Arguments, more: Mapping[str, Any]) -> str:
    return _statement(cursor, _given(args, more, 0, "query"))


def _procedure(cursor: Any, args: Arguments, more: Mapping[str, Any]) -> str:
    variables = _given(args, more, 1, "vars")
    places = ", ".join(["%s"] * len(variables)) if isinstance(variables, Sized) else ""
    return f"SELECT * FROM {_given(args, more, 0, 'procname')}({places})"


def _copied(cursor: Any, args: Arguments, more: Mapping[str, Any]) -> str:
    return _statement(cursor, _given(args, more, 0, "sql"))


def _copied_from(cursor: Any, args: Arguments, more: Mapping[str, Any]) -> str:
    return f"COPY {_given(args, more, 1, 'table')} FROM STDIN"


def _copied_to(cursor: Any, args: Arguments, more: Mapping[str, Any]) -> str:
    return f"COPY {_given(args, more, 1, 'table')} TO STDOUT"


def _method(name: str, statement_of: Callable[[Any, Arguments, Mapping[str, Any]], str]) -> Callable[..., Any]:
    def hooked(cursor: Any, /, *args: Any, **more: Any) -> Any:
        act = getattr(super(SpanCursor, cursor), name)
        if not is_collecting("sql"):
            return act(*args, **more)
        with statement_span(statement_of(cursor, args, more), cursor) as open_span:
            done = act(*args, **more)
            open_span.facts["rows"] = cursor.rowcount
            return done

    hooked.__name__ = name
    return hooked


class SpanCursor:
    """What a cursor's subclass has besides: its statements make spans."""

    __slots__ = ()
    execute = _method("execute", _query)
    executemany = _method("executemany", _query)
    callproc = _method("callproc", _procedure)
    copy_expert = _method("copy_expert", _copied)
    copy_from = _method("copy_from", _copied_from)
    copy_to = _method("copy_to", _copied_to)


class SpanConnection:
    """What a connection's subclass has besides: its cursors make spans."""

    __slots__ = ()

    def cursor(self, *args: Any, **more: Any) -> Any:
        new_cursor = super().cursor(*args, **more)  # type: ignore[misc]  # of the connection's class
        plain = sys.modules["psycopg2._psycopg"].cursor
        if type(new_cursor) is not plain:
            return _adopted(new_cursor, SpanCursor)
        if new_cursor.query is not None:  # a connection of the program's has used it
            return new_cursor
        ours = _subclass(plain, SpanCursor)(self, new_cursor.name)  # type: ignore[arg-type]  # classes have hashes
        for name in ("scrollable", "withhold", "itersize") if new_cursor.name else ():
            setattr(ours, name, getattr(new_cursor, name))
        return ours


@functools.lru_cache(maxsize=64)
def _subclass(base: type, with_spans: type) -> Any:
    return type(base)(base.__name__, (with_spans, base), {"__slots__": (), "__module__": base.__module__})


def _adopted(cursor: Any, with_spans: type) -> Any:
    """Return a program's own connection or cursor, which makes spans from now on, if its class lets itself extend."""
    if not isinstance(cursor, with_spans):
        with suppress(Exception):
            cursor.__class__ = _subclass(type(cursor), with_spans)  # type: ignore[arg-type]
    return cursor


def _connect(original: Callable[..., Any]) -> Callable[..., Any]:
    """Hook what ``psycopg2.connect`` calls, as programs import that one by its name."""

    @functools.wraps(original)
    def hooked(*args: Any, **more: Any) -> Any:
        if _given(args, more, 1, "connection_factory"):
            return _adopted(original(*args, **more), SpanConnection)
        plain = sys.modules["psycopg2._psycopg"].connection
        more.pop("connection_factory", None)
        return original(*args[:1], _subclass(plain, SpanConnection), *args[2:], **more)

    return hooked


def _many(execute: Callable[..., Any]) -> Callable[..., Any]:
    """Hook a helper that writes the parameters into the statements which it executes."""

    @functools.wraps(execute)
    def hooked(cur: Any, sql: Any, *others: Any, **more: Any) -> Any:
        if not is_collecting("sql"):
            return execute(cur, sql, *others, **more)
        with statement_span(_statement(cur, sql), cur):
            return execute(cur, sql, *others, **more)

    return hooked


PSYCOPG2_HOOKS = (
    ("psycopg2", "_connect", _connect),
    ("psycopg2.extras", "execute_batch", _many),
    ("psycopg2.extras", "execute_values", _many),
)
