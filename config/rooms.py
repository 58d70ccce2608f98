"""The rooms are plain folders, so something installed could answer to their names; this guard notices.

The PyPI project openai-agents installs a top-level ``agents``. Which of the two wins depends on the
order of ``sys.path``, and the loser's import error would name neither cause nor cure.
See docs/decisions/0001-plain-folders.md.
"""

from __future__ import annotations

from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path
from sysconfig import get_path

from config.errors import RoomTaken

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("agents", "bus", "config", "handlers", "observers", "web")


def require_own_rooms(root: Path = ROOT) -> None:
    """Every room's name is answered by this folder.

    Raises:
        RoomTaken: a stranger answers; the sentence says which file and what to do.
    """
    for room in ROOMS:
        stranger = _elsewhere(_spec(room), root)
        if stranger:
            raise RoomTaken(
                f"`import {room}` finds {stranger} instead of {root / room}; start through ./callboard, or set "
                f"PYTHONPATH={root} (it has to come first), or uninstall the package that brought it.",
                room=room,
                found=stranger,
            )


def strangers(packages: str | None = None) -> dict[str, str]:
    """Return what is installed under a room's name although ours wins: room -> file."""
    folder = packages or get_path("purelib")
    found = {room: _origin(PathFinder.find_spec(room, [folder])) for room in ROOMS}
    return {room: origin for room, origin in found.items() if origin}


def _spec(room: str) -> ModuleSpec | None:
    try:
        return find_spec(room)
    except ValueError:  # a module somebody put into sys.modules by hand has no spec
        return None


def _elsewhere(spec: ModuleSpec | None, root: Path) -> str | None:
    """Return where the room was found when that is not under ``root``."""
    origin = _origin(spec)
    if origin is None:
        return "nothing"
    return None if Path(origin).resolve().is_relative_to(root.resolve()) else origin


def _origin(spec: ModuleSpec | None) -> str | None:
    if spec is None:
        return None
    if spec.origin:
        return spec.origin
    places = list(spec.submodule_search_locations or ())
    return places[0] if places else None
