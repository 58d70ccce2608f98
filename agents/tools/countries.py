"""Questions to the countries' data set, in SQL that can read and nothing else."""

from __future__ import annotations

import re
import sqlite3
import time
from contextlib import closing
from typing import Any

from agents.tools.tool import tool
from config.errors import ToolFailed, did_you_mean
from config.settings import ROOT

DATA = ROOT / "config" / "data" / "countries.sqlite"
MAX_ROWS = 200
"""Rows an answer has at most."""
MAX_SQL = 4000
"""Characters of the longest query."""
TIME_S = 2.0
"""Seconds a query may take."""
MAX_CELL = 2000
"""Characters of one value."""

_TABLES = {
    "countries": ("code", "name", "capital", "continent", "area_km2", "population"),
    "borders": ("country", "neighbour"),
}
_ALLOWED = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE})
_FORBIDDEN_FUNCTIONS = frozenset(
    {"load_extension", "randomblob", "zeroblob", "fts3_tokenizer", "readfile", "writefile", "edit"}
)
_STEPS = 1000
"""Instructions of SQLite's machine between two looks at the time."""
_NO_SUCH = re.compile(r"no such (table|column): (\S+)")


@tool(effect="pure", timeout_s=10)
def query_countries(sql: str) -> dict[str, Any]:
    """Ask the countries' data set with one SQLite SELECT and get columns and rows, at most 200.

    Tables: countries(code, name, capital, continent, area_km2, population) with 195 states, code being ISO two
    letters and continent one of Africa, Asia, Europe, North America, Oceania, South America;
    borders(country, neighbour) with codes, each land border from both sides. Populations are estimates for 2024.

    Args:
        sql: for example SELECT name, population FROM countries ORDER BY population DESC LIMIT 5
    """
    if len(sql) > MAX_SQL:
        raise ToolFailed(f"the query has {len(sql):,} characters and the limit is {MAX_SQL:,}.")
    try:
        with closing(_connect()) as database:
            found = database.execute(sql)
            columns = [column[0] for column in found.description or ()]
            rows = found.fetchmany(MAX_ROWS + 1)
    except (sqlite3.Error, sqlite3.Warning, ValueError, UnicodeEncodeError) as wrong:
        raise ToolFailed(_problem(wrong)) from wrong
    if not columns:
        raise ToolFailed("that is not a question; write one SELECT.")
    answer: dict[str, Any] = {"columns": columns, "rows": [[_cell(value) for value in row] for row in rows[:MAX_ROWS]]}
    if len(rows) > MAX_ROWS:
        answer["note"] = f"only the first {MAX_ROWS} rows are shown; narrow the question"
    return answer


def _connect() -> sqlite3.Connection:
    """Return a connection of its own: read-only by file, by pragma and by authorizer, and out of time soon."""
    database = sqlite3.connect(f"{DATA.as_uri()}?mode=ro&immutable=1", uri=True, cached_statements=0)
    database.execute("PRAGMA query_only = ON")
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1_000_000)
    database.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    database.set_authorizer(_authorize)
    deadline = time.monotonic() + TIME_S
    database.set_progress_handler(lambda: int(time.monotonic() > deadline), _STEPS)
    return database


def _authorize(action: int, first: str | None, second: str | None, _database: str | None, _trigger: str | None) -> int:
    if action not in _ALLOWED:
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _FORBIDDEN_FUNCTIONS:
        return sqlite3.SQLITE_DENY
    # An empty column is asked for by count(*); tables of SQLite's own describe the file and stay shut.
    if action == sqlite3.SQLITE_READ and (first or "").lower().startswith(("sqlite_", "pragma_")):
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def _problem(wrong: Exception) -> str:
    text = str(wrong)
    if "interrupted" in text:
        return f"the query took longer than {TIME_S:g} seconds; ask for less."
    if "authoriz" in text or "prohibited" in text or "readonly" in text:
        return "only SELECT over the tables countries and borders is allowed."
    if "one statement" in text:
        return "write one statement, without a second one behind it."
    missing = _NO_SUCH.search(text)
    if missing:
        known = _TABLES if missing[1] == "table" else {column for columns in _TABLES.values() for column in columns}
        return f"{text}.{did_you_mean(missing[2].split('.')[-1], known)} {_shape()}"
    return f"SQLite says: {text}. {_shape()}"


def _shape() -> str:
    return "Tables: " + "; ".join(f"{table}({', '.join(columns)})" for table, columns in _TABLES.items()) + "."


def _cell(value: Any) -> Any:
    if isinstance(value, bytes):
        return value[:MAX_CELL].hex()
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return int(value)
    return value[:MAX_CELL] if isinstance(value, str) else value
