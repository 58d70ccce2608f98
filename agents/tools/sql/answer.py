"""What a query is asked with, and what the model gets of its rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

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
