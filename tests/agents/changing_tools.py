"""Tools whose code changes while runs are under way; tests put other functions in their places."""

from __future__ import annotations

from agents.tools import tool

called: list[str] = []
"""What arrived, by every version of every tool."""


@tool(effect="pure")
def weigh(parcel: str) -> str:
    """Weigh a parcel."""
    called.append(f"weigh {parcel}")
    return "2 kg"


@tool(effect="unsafe")
def post(parcel: str) -> str:
    """Post a parcel."""
    called.append(f"post {parcel}")
    return "posted"


@tool(effect="pure", name="weigh")
def weigh_in_units(parcel: str, unit: str = "kg") -> str:
    """Weigh a parcel, in a unit."""
    called.append(f"weigh {parcel} in {unit}")
    return f"2 {unit}"


@tool(effect="pure", name="weigh")
def weigh_by_number(number: int) -> str:
    """Weigh a parcel that has a number."""
    called.append(f"weigh number {number}")
    return "2 kg"


@tool(effect="unsafe", name="weigh")
def weigh_and_charge(parcel: str) -> str:
    """Weigh a parcel, which is charged for now."""
    called.append(f"charge {parcel}")
    return "2 kg"


@tool(effect="unsafe", name="post")
def post_by_number(number: int) -> str:
    """Post a parcel that has a number."""
    called.append(f"post number {number}")
    return "posted"
