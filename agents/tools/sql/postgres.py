"""A query of a PostgreSQL server: in a read-only transaction that is rolled back, by a role that may do no harm.

The transaction refuses to write. What a function may do besides (read the server's files, open connections) is a right
of the role, so a role with such a right is refused.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
from typing import TYPE_CHECKING, Any

from agents.tools.sql.sqlite import (
    MAX_CELL,
    MAX_CHARS,
    MAX_COLUMNS,
    ONLY_READING,
    TOO_LONG,
    SqlAnswer,
    SqlQuery,
)
from config.errors import ToolFailed
from config.redaction import redact_start

if TYPE_CHECKING:
    from psycopg import AsyncConnection, AsyncCursor, Column

log = logging.getLogger(__name__)

CONNECT_S = 5
"""Seconds until the connection is open."""
MARGIN_S = 1.0
"""Seconds after the server's own limit until the query is given up here."""
BATCH = 50
"""Rows that are fetched at once."""

_PLAIN = frozenset({16, 20, 21, 23, 26, 700, 701})
"""Types that are read as they are: bool, integers, oid, floats. Every other one is read as text, which can be cut."""
_BYTES = 17
_LIMITS = """
SET LOCAL default_transaction_read_only = on; SET LOCAL statement_timeout = {ms}; SET LOCAL lock_timeout = {ms};
SET LOCAL idle_in_transaction_session_timeout = {idle_ms}; SET LOCAL datestyle = 'ISO, YMD';
SET LOCAL standard_conforming_strings = on; SET LOCAL client_encoding = 'UTF8'
"""
_RIGHTS = """
SELECT CASE WHEN r.rolsuper THEN 'it is a superuser' WHEN r.rolreplication THEN 'it may replicate' END
FROM pg_roles r WHERE r.rolname = current_user AND (r.rolsuper OR r.rolreplication)
UNION ALL
SELECT 'it is a member of ' || r.rolname FROM pg_roles r
WHERE pg_has_role(current_user, r.oid, 'MEMBER') AND (r.rolsuper OR r.rolname = ANY (%(roles)s))
UNION ALL
SELECT 'it may execute ' || p.proname FROM pg_proc p
WHERE p.proname = ANY (%(functions)s) AND has_function_privilege(current_user, p.oid, 'EXECUTE')
LIMIT 1
"""
ROLES = ["pg_read_server_files", "pg_write_server_files", "pg_execute_server_program", "pg_signal_backend"]
"""Roles of PostgreSQL whose members reach beyond the database."""
FUNCTIONS = """
dblink dblink_connect dblink_exec dblink_open dblink_send_query lo_import lo_export pg_read_file pg_read_binary_file
pg_ls_dir pg_stat_file pg_file_write pg_promote pg_switch_wal http http_get http_post
""".split()
"""Functions by which a query that only reads would act."""
_ACTING = re.compile(
    r"\b(?:(?:pg_terminate_backend|pg_cancel_backend|pg_logical_emit_message|ts_stat|ts_rewrite|connectby|xpath_table)\b"
    r"|pg_(?:try_)?advisory_|(?:query|cursor)_to_xml|crosstab)",
    re.IGNORECASE,
)
"""Functions that every role may execute and that act on other sessions or on the log, or execute a text as SQL.

A query cannot name them otherwise than in its own text.
"""
_ESCAPED_NAME = re.compile(r'u&"', re.IGNORECASE)


async def ask_postgres(url: str, query: SqlQuery) -> SqlAnswer:
    """Return the answer; cancelling the caller cancels the query on the server.

    Raises:
        ToolFailed: the server refused the query, its role may do too much, or a limit was exceeded.
    """
    _require_no_acting(query.sql)
    try:
        import psycopg
    except ImportError as error:
        raise ToolFailed("PostgreSQL needs the package psycopg; the operator installs callboard[postgres].") from error
    try:
        async with asyncio.timeout(CONNECT_S):
            connection = await psycopg.AsyncConnection.connect(
                url, connect_timeout=CONNECT_S, application_name="callboard sql_query"
            )
        try:
            async with asyncio.timeout(query.time_s + MARGIN_S):  # of all statements; the server has one for each
                return await _answer(connection, query)
        finally:
            await connection.close()  # rolls back
    except TimeoutError as error:
        raise ToolFailed(TOO_LONG.format(time_s=query.time_s)) from error
    except psycopg.Error as error:
        raise ToolFailed(_problem(error, query)) from error


def _require_no_acting(sql: str) -> None:
    """Return if a query names no function that acts; the read-only transaction and the role's rights do not stop these.

    Raises:
        ToolFailed: it does.
    """
    match = _ACTING.search(sql)
    if match is not None:
        raise ToolFailed(f"{ONLY_READING} The query has '{match[0][:80]}', which does more; leave it out.")
    if _ESCAPED_NAME.search(sql):
        raise ToolFailed('write names as they are, without the escapes of U&"...".')


async def _answer(connection: AsyncConnection[Any], query: SqlQuery) -> SqlAnswer:
    limit_ms = max(1, round(query.time_s * 1000))
    await connection.set_read_only(True)
    cursor = connection.cursor()
    await cursor.execute(_LIMITS.format(ms=limit_ms, idle_ms=limit_ms + 10_000).encode())
    await _require_harmless(cursor, query)
    columns = await _columns(cursor, query)
    # The query is a whole statement, as the first cursor has shown, so its parentheses and comments end in it.
    chosen = ", ".join(_shown(f"c{number}", column) for number, column in enumerate(columns))
    names = ", ".join(f"c{number}" for number in range(len(columns)))
    wrapped = f"DECLARE callboard NO SCROLL CURSOR FOR SELECT {chosen} FROM ({_bare(query.sql)}\n) AS asked({names})"
    await cursor.execute(wrapped.encode("utf-8"), binary=True)
    answer = SqlAnswer(columns=[column.name for column in columns])
    await _read(cursor, answer, query.max_rows)
    return answer


async def _require_harmless(cursor: AsyncCursor[Any], query: SqlQuery) -> None:
    await cursor.execute(_RIGHTS, {"roles": ROLES, "functions": FUNCTIONS})
    row = await cursor.fetchone()
    if row is not None:
        raise ToolFailed(
            f"the role of database '{query.database}' may do more than read: {row[0]}. The operator gives the "
            "database a role that only reads (docs/tools.md)."
        )


async def _columns(cursor: AsyncCursor[Any], query: SqlQuery) -> list[Column]:
    """Return the columns of the query without running it; a cursor takes one query, and nothing that writes.

    In the binary form a text is one statement, or it is refused.
    """
    await cursor.execute(f"DECLARE asked NO SCROLL CURSOR FOR {_bare(query.sql)}".encode(), binary=True)
    await cursor.execute(b"FETCH 0 FROM asked")
    columns = list(cursor.description or ())
    if not columns:
        raise ToolFailed("the query has no columns; name those that are needed.")
    if len(columns) > MAX_COLUMNS:
        raise ToolFailed(f"the result has {len(columns)} columns and the limit is {MAX_COLUMNS}; name those you need.")
    await cursor.execute(b"CLOSE asked")
    return columns


def _bare(sql: str) -> str:
    """Return the statement without the semicolon at its end."""
    return sql.strip().removesuffix(";")


def _shown(name: str, column: Column) -> str:
    if column.type_code in _PLAIN:
        return name
    if column.type_code == _BYTES:
        return f"encode(substring({name} FROM 1 FOR {MAX_CELL // 2 + 1}), 'hex')"
    return f"left({name}::text, {MAX_CELL + 1})"


async def _read(cursor: AsyncCursor[Any], answer: SqlAnswer, max_rows: int) -> None:
    chars = 0
    while True:
        batch_size = min(BATCH, max_rows + 1 - len(answer.rows))
        await cursor.execute(f"FETCH {batch_size} FROM callboard".encode())
        rows = await cursor.fetchall()
        for row in rows:
            if len(answer.rows) == max_rows or chars > MAX_CHARS:
                answer.is_cut = True
                return
            answer.cut_values += sum(isinstance(value, str) and len(value) > MAX_CELL for value in row)
            answer.rows.append([_cell(value) for value in row])
            chars += sum(len(value) if isinstance(value, str) else 8 for value in answer.rows[-1])
        if len(rows) < batch_size:
            return


def _cell(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"  # JSON has no such numbers
    return value[:MAX_CELL] if isinstance(value, str) else value


def _problem(error: Any, query: SqlQuery) -> str:
    from psycopg import errors

    message = redact_start(str(error.diag.message_primary or ""), 500)
    if isinstance(error, errors.QueryCanceled | errors.LockNotAvailable):
        return TOO_LONG.format(time_s=query.time_s)
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return f"{ONLY_READING} PostgreSQL says: {message}."
    if "multiple commands" in message:
        return "write one statement, without a second one behind it."
    if error.diag.sqlstate is None or not message:
        log.warning("a database did not answer database=%s: %s", query.database, redact_start(str(error), 500))
        return f"database '{query.database}' cannot be reached; the worker's log has the reason."
    if isinstance(error, errors.SyntaxError):
        return f"{ONLY_READING} PostgreSQL says: {message}."
    return f"PostgreSQL says: {message}. information_schema.columns lists the tables."
