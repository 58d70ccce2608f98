"""The tools of these tests' agent: one of each kind that a caller meets."""

from __future__ import annotations

import threading

from agents.tools import current_call, tool

is_open = threading.Event()
"""Lets ``wait_outside`` return."""
calls_made: list[str] = []
"""The calls that had an effect."""


@tool(
    effect="pure",
    output_schema={
        "type": "object",
        "properties": {"sum": {"$ref": "#/$defs/number"}},
        "$defs": {"number": {"type": "integer"}},
    },
)
def add(a: int, b: int) -> dict[str, int]:
    """Add two numbers.

    Args:
        a: the first.
        b: the second.
    """
    return {"sum": a + b}


@tool(effect="unsafe", confirm=True)
def book(room: str) -> str:
    """Book a room.

    Args:
        room: which one.
    """
    calls_made.append(room)
    return f"booked {room}"


@tool(effect="pure")
def seat() -> str:
    """Find seats, and ask for how many persons."""
    form = {"type": "object", "required": ["persons"], "properties": {"persons": {"type": "integer", "minimum": 1}}}
    return f"seats for {current_call().ask(form, 'How many persons?')['persons']}"


@tool(effect="pure")
def wait_outside() -> str:
    """Return when the door is open."""
    is_open.wait(20)
    return "in"


@tool(effect="pure")
def repeat(text: str, times: int = 1) -> str:
    """Say a text several times.

    Args:
        text: what is said.
        times: how often.
    """
    return text * times


@tool(effect="pure")
def burn() -> str:
    """Fail."""
    raise RuntimeError("/srv/secret/path of the kitchen")


@tool(effect="pure", roles=["admin"])
def count_money() -> int:
    """Count the money."""
    return 7


@tool(effect="unsafe", classification="RESTRICTED")
def open_safe() -> str:
    """Open the safe."""
    calls_made.append("safe")
    return "open"
