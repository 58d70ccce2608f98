"""A query of a SQLite file, in a process of its own that is killed when its caller is cancelled."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from pathlib import Path

from agents.tools.isolation.sql_process import OUT_OF_MEMORY, OUT_OF_TIME, QueryFailed, QueryProcess, ask
from agents.tools.sql.answer import MAX_CELL, MAX_COLUMNS, ONLY_READING, TOO_LONG, SqlAnswer, SqlQuery
from config.errors import ToolFailed

_NO_FUNCTION = re.compile(r"not authorized to use function: (\S+)")
_HINT = "SELECT name, sql FROM sqlite_schema lists the tables."


async def ask_sqlite(file: Path, query: SqlQuery) -> SqlAnswer:
    """Return the answer; cancelling the caller kills the process.

    Raises:
        ToolFailed: SQLite refused the query, or it exceeded its time or memory.
    """
    if not file.is_file():
        raise ToolFailed(f"the file of database '{query.database}' is not there; the operator has its path.")
    process = QueryProcess()
    limits = {"time_s": query.time_s, "max_rows": query.max_rows, "max_cell": MAX_CELL}
    query_call = partial(ask, file, query.sql, is_live=True, process=process, **limits)  # type: ignore[arg-type]
    try:
        result = await asyncio.to_thread(query_call)
    except QueryFailed as error:
        raise ToolFailed(_problem(str(error), query)) from error
    finally:
        process.kill()
    if not result["columns"]:
        raise ToolFailed(ONLY_READING)
    return SqlAnswer(**result)


def _problem(text: str, query: SqlQuery) -> str:
    if text == OUT_OF_TIME:
        return TOO_LONG.format(time_s=query.time_s)
    if text == OUT_OF_MEMORY:
        return "the query needs more memory than it may have; ask for fewer or shorter values."
    refused = _NO_FUNCTION.search(text)
    if refused:
        return f"the function '{refused[1][:80]}' may not be used here."
    if any(word in text for word in ("authoriz", "prohibited", "readonly", "read-only")):
        return f"{ONLY_READING} {_HINT}"
    if "one statement" in text:
        return "write one statement, without a second one behind it."
    if "too many columns" in text:
        return f"the result has more than {MAX_COLUMNS} columns; name those that are needed."
    if "unable to open" in text or "not a database" in text or "malformed" in text:
        return f"database '{query.database}' cannot be read; the operator checks its file and folder."
    if "locked" in text or "busy" in text:
        return f"database '{query.database}' is being written to; ask again."
    return f"SQLite says: {text[:500]}. {_HINT}"
