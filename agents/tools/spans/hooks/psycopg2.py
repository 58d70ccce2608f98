"""Hooks into psycopg2, whose connections and cursors are C types: new ones get a subclass with our methods."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Mapping, Sized
from contextlib import suppress
from typing import Any

from agents.tools.spans.collector import is_collecting
from agents.tools.spans.hooks.sql import statement_span, text_of

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
