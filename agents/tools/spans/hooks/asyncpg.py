"""Hooks into asyncpg: connections, also those of a pool, prepared statements and cursors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from agents.tools.spans.collector import is_collecting, span, statement_name

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


def _hook(statement_of: Callable[..., str], rows_of: Callable[[str, Any], int | None]) -> Wrap:
    """Make a hook from what gives the statement of a call, and its rows by the statement's name and the answer."""

    def wrap(act: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(act)
        async def hooked(owner: Any, /, *args: Any, **more: Any) -> Any:
            if not is_collecting("sql"):
                return await act(owner, *args, **more)
            statement = statement_of(owner, *args, **more)
            connection = getattr(owner, "_connection", owner)
            if statement == getattr(connection, "_reset_query", None):  # a pool's, when it gets its connection back
                return await act(owner, *args, **more)
            name = statement_name(statement)
            database = getattr(getattr(connection, "_params", None), "database", None)
            facts = {"statement": statement, "database": database, "system": "postgresql"}
            with span("sql", name, **facts) as noted:
                answer = await act(owner, *args, **more)
                noted.facts["rows"] = rows_of(name, answer)
                return answer

        return hooked

    return wrap


def _first(connection: Any, *args: Any, query: Any = None, command: Any = None, **more: Any) -> str:
    return str(args[0] if args else query or command)


def _own(statement: Any, *args: Any, **more: Any) -> str:
    return str(statement._query)


def _table(*args: Any, table_name: Any = None, schema_name: Any = None, **more: Any) -> str:
    table = args[1] if len(args) > 1 else table_name
    return str(table if schema_name is None else f"{schema_name}.{table}")


def _copied_from_query(*args: Any, **more: Any) -> str:
    return f"COPY ({_first(*args, **more)}) TO STDOUT"


def _copied_from_table(*args: Any, **more: Any) -> str:
    return f"COPY {_table(*args, **more)} TO STDOUT"


def _copied_to_table(*args: Any, **more: Any) -> str:
    return f"COPY {_table(*args, **more)} FROM STDIN"


def _status(name: str, status: Any) -> int | None:
    """Return the rows that a status such as ``INSERT 0 3`` counts."""
    count = str(status).rpartition(" ")[2]
    return int(count) if count.isascii() and count.isdigit() else None


def _records(name: str, records: Any) -> int | None:
    """Return how many records a query gave; a statement that gives none may have changed some."""
    return len(records) if records or name == "SELECT" else None


def _record(name: str, record: Any) -> int | None:
    return _records(name, [] if record is None else [record])


def _value(name: str, value: Any) -> int | None:
    return None if value is None else 1  # no row or NULL


def _unknown(name: str, answer: Any) -> None:
    return None


_CONNECTION, _PREPARED = "asyncpg.connection", "asyncpg.prepared_stmt"
ASYNCPG_HOOKS = (
    (_CONNECTION, "Connection.execute", _hook(_first, _status)),
    (_CONNECTION, "Connection.executemany", _hook(_first, _unknown)),
    (_CONNECTION, "Connection.fetch", _hook(_first, _records)),
    (_CONNECTION, "Connection.fetchval", _hook(_first, _value)),
    (_CONNECTION, "Connection.fetchrow", _hook(_first, _record)),
    (_CONNECTION, "Connection.fetchmany", _hook(_first, _records)),
    (_CONNECTION, "Connection.copy_from_table", _hook(_copied_from_table, _status)),
    (_CONNECTION, "Connection.copy_from_query", _hook(_copied_from_query, _status)),
    (_CONNECTION, "Connection.copy_to_table", _hook(_copied_to_table, _status)),
    (_CONNECTION, "Connection.copy_records_to_table", _hook(_copied_to_table, _status)),
    (_PREPARED, "PreparedStatement.fetch", _hook(_own, _records)),
    (_PREPARED, "PreparedStatement.fetchval", _hook(_own, _value)),
    (_PREPARED, "PreparedStatement.fetchrow", _hook(_own, _record)),
    (_PREPARED, "PreparedStatement.fetchmany", _hook(_own, _records)),
    (_PREPARED, "PreparedStatement.executemany", _hook(_own, _unknown)),
    ("asyncpg.cursor", "BaseCursor._bind", _hook(_own, _unknown)),
    ("asyncpg.cursor", "BaseCursor._bind_exec", _hook(_own, _unknown)),
)
