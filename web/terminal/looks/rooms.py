"""The rooms: nobody else answers to their names."""

from __future__ import annotations

from config.rooms import require_own_rooms, strangers
from config.settings import Settings
from web.terminal.looks.finding import Found


def look_at_rooms(_: Settings) -> Found:
    """Yield who else has the name of a room."""
    require_own_rooms()
    found = strangers()
    for room, file in found.items():
        yield (
            "warn",
            f"{file} has the name of our folder {room}/; ours wins while ./callboard starts things. Uninstall it.",
        )
    if not found:
        yield "ok", "every folder answers to its name"
