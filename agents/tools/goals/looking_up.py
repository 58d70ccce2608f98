"""The tools of the goals that only look something up: `travel`, and `e-commerce`, the orders of a small shop."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any

from pydantic import Field

from agents.tools.goals.data import shipped
from agents.tools.tool import tool
from config.errors import ToolFailed

City = Annotated[str, Field(min_length=1, max_length=60)]
Day = Annotated[str, Field(max_length=10, pattern=r"^\d{4}-\d{2}-\d{2}$")]


@tool(effect="pure", timeout_s=20)
def search_flights(origin: City, destination: City, date: Day) -> dict[str, Any]:
    """Search the flights from one city to another on a day.

    Args:
        origin: the city of the departure.
        destination: the city of the arrival.
        date: the day, as 2026-05-31.
    """
    return _connections("flights", origin, destination, date)


@tool(effect="pure", timeout_s=20)
def search_trains(origin: City, destination: City, date: Day) -> dict[str, Any]:
    """Search the trains from one city to another on a day.

    Args:
        origin: the city of the departure.
        destination: the city of the arrival.
        date: the day, as 2026-05-31.
    """
    return _connections("trains", origin, destination, date)


@tool(effect="pure", timeout_s=20)
def find_events(city: City, month: Annotated[int, Field(ge=1, le=12)]) -> dict[str, Any]:
    """Find what is on in a city in a month.

    Args:
        city: the city.
        month: the number of the month.
    """
    events = shipped("travel")["events"]
    rows = [[row["event"], row["days"]] for row in events if _same(row["city"], city) and row["month"] == month]
    if not rows:
        listing = ", ".join(f"{row['city']} in month {row['month']}" for row in events)
        raise ToolFailed(f"nothing is known of {city} in month {month}; there are events in {listing}.")
    return {"columns": ["event", "days"], "rows": rows}


def _connections(kind: str, origin: str, destination: str, day: str) -> dict[str, Any]:
    try:
        date.fromisoformat(day)
    except ValueError as error:
        raise ToolFailed(f"'{day}' is no day; write one as 2026-05-31.") from error
    connections = shipped("travel")[kind]
    rows = [row for row in connections if _same(row["origin"], origin) and _same(row["destination"], destination)]
    if not rows:
        listing = ", ".join(sorted({f"{row['origin']} to {row['destination']}" for row in connections}))
        raise ToolFailed(f"there are no {kind} from {origin} to {destination}; there are some from {listing}.")
    columns = [name for name in rows[0] if name not in ("origin", "destination")]
    return {"columns": ["date", *columns], "rows": [[day, *(row[name] for name in columns)] for row in rows]}


def _same(city: str, written: str) -> bool:
    return city.lower() == written.strip().lower()


# --- e-commerce: orders and packages


@tool(effect="pure", timeout_s=20)
def get_order(order_id: Annotated[str, Field(min_length=1, max_length=40)]) -> dict[str, Any]:
    """Get the state of an order, what is in it and the id of its package.

    Args:
        order_id: the number of the order, such as 1042.
    """
    return _entry("orders", order_id.strip().lstrip("#"))


@tool(effect="pure", timeout_s=20)
def track_package(tracking_id: Annotated[str, Field(min_length=1, max_length=40)]) -> dict[str, Any]:
    """Get where a package is and when it arrives.

    Args:
        tracking_id: the package's id, such as CBX-7781.
    """
    return _entry("packages", tracking_id.strip().upper())


def _entry(kind: str, name: str) -> dict[str, Any]:
    entries: dict[str, dict[str, Any]] = shipped("shop")[kind]
    if name not in entries:
        raise ToolFailed(f"there is no '{name}' among the {kind}; there are {', '.join(entries)}.")
    return entries[name]
