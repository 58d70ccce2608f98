"""A query of a SQLite file, in a process of its own that is killed when its caller is cancelled."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from agents.tools.isolation.sql_process import OUT_OF_MEMORY, OUT_OF_TIME, QueryFailed, QueryProcess, ask
from config.errors import ToolFailed

MAX_COLUMNS = 100
"""Columns of an answer."""
MAX_CELL = 4000
"""Characters of one value; a longer one is cut."""
MAX_CHARS = 200_000
"""Characters of all values together, after which no more rows are read."""
TOO_LONG = "the query took longer than {time_s:g} seconds and was ended; ask for less."
ONLY_READING = "only reading is possible: write one SELECT."


@dataclass(frozen=True, kw_only=True, slots=True)
class SqlQuery:
    """One query and its limits."""

    database: str
    """The name of the database, for messages."""
    sql: str
    time_s: float
    """Seconds that it may take."""
    max_rows: int


@dataclass(kw_only=True, slots=True)
class SqlAnswer:
    """The rows that fit."""

    columns: list[str]
    rows: list[list[Any]] = field(default_factory=list)
    is_cut: bool = False
    """Whether there are more rows."""
    cut_values: int = 0
    """How many values are not shown to their end."""

    def as_result(self) -> dict[str, Any]:
        """Return the answer as the model gets it, with a note about what is missing."""
        notes = []
        if self.is_cut:
            notes.append(f"only the first {len(self.rows)} rows are shown; narrow the question")
        if self.cut_values:
            notes.append(f"{self.cut_values} values are cut at {MAX_CELL:,} characters")
        result: dict[str, Any] = {"columns": self.columns, "rows": self.rows}
        return result | ({"note": "; ".join(notes)} if notes else {})


# --- a query of a SQLite file


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
