"""A tool that returns more than a person can read."""

from __future__ import annotations

from typing import Any

from agents.tools import tool

ROWS = 78_000


@tool(effect="pure")
def every_order(year: int, rows: int = ROWS) -> list[dict[str, Any]]:
    """Return every order of a year: about 5 MB as JSON.

    Args:
        year: the year.
        rows: how many orders it has.
    """
    return orders(year, rows)


def orders(year: int, rows: int) -> list[dict[str, Any]]:
    """Return what the tool returns."""
    return [{"number": number, "name": f"order {number}", "year": year, "text": "x" * 8} for number in range(rows)]
