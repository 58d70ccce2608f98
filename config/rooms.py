"""The rooms are plain folders, so something installed could answer to their names; this guard notices.

The PyPI project openai-agents installs a top-level ``agents``. Which of the two wins depends on the
order of ``sys.path``, and the loser's import error would name neither cause nor cure.
See docs/decisions/0001-plain-folders.md.
"""

from __future__ import annotations

from importlib.machinery import PathFinder
from pathlib import Path
from sysconfig import get_path

from config.errors import RoomTaken
from config.folders import FOLDERS as ROOMS
from config.folders import ROOT, first_stranger, origin_of, sentence_about

__all__ = ["ROOMS", "ROOT", "require_own_rooms", "strangers"]


def require_own_rooms(root: Path = ROOT) -> None:
    """Every room's name is answered by this folder, also where it was not on ``sys.path`` before.

    Raises:
        RoomTaken: a stranger answers; the sentence says which file and what to do.
    """
    stranger = first_stranger(root)
    if stranger is not None:
        room, found = stranger
        raise RoomTaken(sentence_about(room, found, root), room=room, found=found)


def strangers(packages: str | None = None) -> dict[str, str]:
    """Return what is installed under a room's name although ours wins: room -> file."""
    folder = packages or get_path("purelib")
    found = {room: origin_of(PathFinder.find_spec(room, [folder])) for room in ROOMS}
    return {room: origin for room, origin in found.items() if origin}
