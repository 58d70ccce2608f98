"""A tool that queries the countries data set with read-only SQL."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import Field

from agents.tools.isolation.sql_process import OUT_OF_MEMORY, OUT_OF_TIME, QueryFailed, ask
from agents.tools.tool import tool
from config.errors import ToolFailed
from config.settings import ROOT
from config.text.names import did_you_mean

DATA = ROOT / "config" / "data" / "countries.sqlite"
MAX_ROWS = 200
"""Rows an answer has at most."""
MAX_SQL = 4000
"""Characters of the longest query."""
TIME_S = 2.0
"""Seconds a query may take; then the kernel ends its process."""
MAX_CELL = 2000
"""Characters of one value."""

_TABLES = {
    "countries": ("code", "name", "capital", "continent", "area_km2", "population"),
    "borders": ("country", "neighbour"),
}
_NO_SUCH = re.compile(r"no such (table|column): (\S+)")
_NO_FUNCTION = re.compile(r"not authorized to use function: (\S+)")


@tool(effect="pure", timeout_s=20)
def query_countries(sql: Annotated[str, Field(max_length=MAX_SQL)]) -> dict[str, Any]:
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
        result = ask(DATA, sql, time_s=TIME_S, max_rows=MAX_ROWS, max_cell=MAX_CELL)
    except QueryFailed as error:
        raise ToolFailed(_problem(str(error))) from error
    if not result["columns"]:
        raise ToolFailed("that is not a question; write one SELECT.")
    answer: dict[str, Any] = {"columns": result["columns"], "rows": result["rows"]}
    if result["is_cut"]:
        answer["note"] = f"only the first {len(result['rows'])} rows are shown; narrow the question"
    return answer


def _problem(text: str) -> str:
    if text == OUT_OF_TIME:
        return f"the query took longer than {TIME_S:g} seconds; ask for less."
    if text == OUT_OF_MEMORY:
        return "the query needs more memory than it may have; ask for less."
    refused = _NO_FUNCTION.search(text)
    if refused:
        return f"only SELECT with the usual functions is allowed, and '{refused[1][:80]}' is none of them."
    if "authoriz" in text or "prohibited" in text or "readonly" in text:
        return "only SELECT over the tables countries and borders is allowed."
    if "one statement" in text:
        return "write one statement, without a second one behind it."
    missing = _NO_SUCH.search(text)
    if missing:
        names = _TABLES if missing[1] == "table" else {column for columns in _TABLES.values() for column in columns}
        return f"{text}.{did_you_mean(missing[2].split('.')[-1], names)} {_shape()}"
    return f"SQLite says: {text}. {_shape()}"


def _shape() -> str:
    return "Tables: " + "; ".join(f"{table}({', '.join(columns)})" for table, columns in _TABLES.items()) + "."
