"""The folder of one call of a program: an empty home and an empty working folder, removed when the call ends.

Interpreters and tools execute what they find in both, such as ``.bashrc``, ``.gitconfig``, ``json/__init__.py`` or a
``.pth`` file. In the sandbox a model writes files, so neither of the two is there.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import Self

from agents.tool_errors import storage_full
from config.private_files import private_folder

log = logging.getLogger(__name__)

LOST_S = 60
"""Seconds beyond the end of a call's time after which what it left counts as lost."""


class CallFolder:
    """A folder below ``above``; its name says when it counts as lost."""

    def __init__(self, above: Path, wall_s: float) -> None:
        self.path = above / f"{lost_at_s(wall_s)}-{secrets.token_hex(4)}"
        self.home, self.work = self.path / "home", self.path / "work"

    def __enter__(self) -> Self:
        """Make it.

        Raises:
            STORAGE_FULL: the disk is full, or cannot be written.
        """
        try:
            private_folder(self.home)
            private_folder(self.work)
        except OSError as error:
            self.__exit__()
            raise storage_full("no folder can be made for the call", error) from error
        return self

    def __exit__(self, *_: object) -> None:
        """Remove it where it is empty; where the program began, its guard has removed it."""
        for folder in (self.home, self.work, self.path):
            with suppress(OSError):
                os.rmdir(folder)


def calls_folder(state: Path) -> Path:
    """Return where the folders of calls are."""
    return state / "calls"


def remove_lost_folders(above: Path, now_s: float | None = None) -> list[str]:
    """Remove the folders of calls whose worker and guard are gone, and return their names."""
    now_s = time.time() if now_s is None else now_s
    with suppress(FileNotFoundError):
        lost = [name for name in os.listdir(above) if is_lost(name, now_s)]
        for name in lost:
            shutil.rmtree(above / name, ignore_errors=True)
        removed = [name for name in lost if not (above / name).exists()]
        if removed:
            log.warning("removed %d folders of calls that lost workers left", len(removed))
        return removed
    return []


def lost_at_s(wall_s: float) -> int:
    """Return when what a call of ``wall_s`` seconds leaves counts as lost, in s since 1970 (UTC)."""
    return int(time.time() + wall_s) + LOST_S


def is_lost(name: str, now_s: float) -> bool:
    """Return whether the time with which ``name`` begins is over; a name without one is not ours."""
    at_s = name.partition("-")[0]
    return at_s.isdecimal() and len(at_s) < 16 and int(at_s) < now_s
