"""The tools of the workflow `order`: stock, a card and a parcel, each with the call that undoes it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from agents.tools.goals.data import Entries, entries
from agents.tools.tool import tool
from config.errors import ToolFailed

STOCK = {"book": 40, "lamp": 6, "chair": 3}
"""Pieces of each item at the beginning."""
PRICES_EUR = {"book": 18.0, "lamp": 49.5, "chair": 120.0}
SERVED = ("AT", "BE", "DE", "FR", "IT", "NL")
"""The countries to which parcels go."""
Text = Annotated[str, Field(min_length=1, max_length=40)]


@tool(effect="keyed", timeout_s=20)
def reserve_stock(item: Text, quantity: Annotated[int, Field(ge=1, le=100)]) -> dict[str, Any]:
    """Reserve pieces of an item, and return the reservation and the price.

    Args:
        item: book, lamp or chair.
        quantity: how many pieces.
    """
    with entries() as done:
        if done.own is not None:
            return done.own
        if item not in STOCK:
            raise ToolFailed(f"there is no item '{item}'; the items are {', '.join(STOCK)}.")
        left = STOCK[item] - sum(entry["quantity"] for entry in _open(done, "reservation", "release"))
        if quantity > left:
            raise ToolFailed(f"{left} of '{item}' are left, and {quantity} are wanted.")
        facts = {"item": item, "quantity": quantity, "price_eur": PRICES_EUR[item] * quantity}
        return done.add("reservation", _numbered(done, "reservation", facts))


@tool(effect="keyed", timeout_s=20)
def release_stock(reservation: Text) -> dict[str, Any]:
    """Give back what a reservation holds; a second time changes nothing.

    Args:
        reservation: which one.
    """
    return _undo("reservation", "release", reservation)


@tool(effect="keyed", timeout_s=20)
def charge_card(amount_eur: Annotated[float, Field(gt=0, le=10_000)]) -> dict[str, Any]:
    """Charge the customer's card, and return the charge.

    Args:
        amount_eur: how much, in euros.
    """
    with entries() as done:
        return done.own or done.add("charge", _numbered(done, "charge", {"amount_eur": amount_eur}))


@tool(effect="keyed", timeout_s=20)
def refund_card(charge: Text) -> dict[str, Any]:
    """Pay a charge back; a second time changes nothing.

    Args:
        charge: which one.
    """
    return _undo("charge", "refund", charge)


@tool(effect="keyed", timeout_s=20)
def ship_order(reservation: Text, country: Annotated[str, Field(min_length=2, max_length=2)]) -> dict[str, Any]:
    """Send what a reservation holds to a country, and return the parcel.

    Args:
        reservation: which one.
        country: the country's code, such as DE.
    """
    with entries() as done:
        if done.own is not None:
            return done.own
        if country not in SERVED:
            raise ToolFailed(f"no parcels go to '{country}'; the countries are {', '.join(SERVED)}.")
        return done.add("parcel", _numbered(done, "parcel", {"reservation": reservation, "country": country}))


def _numbered(done: Entries, kind: str, facts: dict[str, Any]) -> dict[str, Any]:
    return {kind: f"{kind.upper()}-{len(done.of(kind)) + 1}", **facts}


def _undo(kind: str, undoing: str, name: str) -> dict[str, Any]:
    with entries() as done:
        if done.own is not None:
            return done.own
        before = next((entry for entry in done.of(undoing) if entry[kind] == name), None)
        if before is not None:
            return before
        if all(entry[kind] != name for entry in done.of(kind)):
            raise ToolFailed(f"there is no {kind} '{name[:40]}'.")
        return done.add(undoing, {kind: name, "undone": True})


def _open(done: Entries, kind: str, undoing: str) -> list[dict[str, Any]]:
    """Return the entries of a kind that nothing has undone."""
    undone = {entry[kind] for entry in done.of(undoing)}
    return [entry for entry in done.of(kind) if entry[kind] not in undone]
