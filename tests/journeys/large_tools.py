"""A tool that returns more than anybody can read."""

from __future__ import annotations

from agents.tools import tool

ROWS = 100_000


@tool(effect="pure")
def every_order(year: int) -> list[dict[str, object]]:
    """Return every order of a year: about 5 MB as JSON."""
    return [{"number": number, "name": f"order {number}", "year": year, "text": "x" * 8} for number in range(ROWS)]
