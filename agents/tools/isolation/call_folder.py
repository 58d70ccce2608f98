"""The folder of one call of a program: an empty home and an empty working folder, removed when the call ends.

Interpreters and tools execute what they find in both, such as ``.bashrc``, ``.gitconfig``, ``json/__init__.py`` or a
``.pth`` file. In the sandbox a model writes files, so neither of the two is there.
"""

from __future__ import annotations

import errno
import logging
import os
import secrets
import shutil
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Self

from agents.errors import storage_full
from config.errors import ToolFailed
from config.policy_decision import READ_FROM
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


# --- the files of a call


MAX_BYTES = 64 * 1024
"""Longest file of labels that is read."""


class CallSandbox:
    """The sandbox folder as one call uses it."""

    def __init__(self, path: Path, labels: Collection[str] = ()) -> None:
        """``labels`` are those of all that the call may write."""
        self._path, self._labels = path, frozenset(labels)
        self._is_read = False

    def for_reading(self) -> Path:
        """Return the folder, which may be missing; the call's result has the labels of the files."""
        self._is_read = True
        return self._path

    def for_writing(self) -> Path:
        """Return the folder, made where it is missing; the files have the labels of the call.

        Raises:
            STORAGE_FULL: the folder or the labels cannot be written.
        """
        try:
            if not os.path.isdir(self._path):  # looking at all folders above takes a hundred times as long
                private_folder(self._path)
            note_labels(self._path, self._labels)
        except OSError as error:
            raise storage_full("the sandbox folder cannot be written", error) from error
        return self._path

    def for_all(self) -> Path:
        """Return the folder for code of which it is not known what it does there; both of the above hold."""
        self.for_reading()
        return self.for_writing()

    def labels_read(self) -> frozenset[str]:
        """Return the labels of what the call may have read; to be called after it.

        Raises:
            ToolFailed: they cannot be read.
        """
        try:
            return labels_of(self._path) if self._is_read else frozenset()
        except OSError as error:
            raise ToolFailed(f"the labels of the sandbox's files cannot be read: {error.strerror}.") from error


def note_labels(sandbox: Path, labels: Collection[str]) -> None:
    """Keep the labels of the run that writes into ``sandbox``; what says where it read them from is left out.

    Raises:
        OSError: they cannot be kept.
    """
    new = {label for label in labels if not label.startswith(READ_FROM)} - labels_of(sandbox)
    if not new:
        return
    lines = "".join(f"\n{label}\n" for label in sorted(new)).encode()  # behind a line that a full disk cut, too
    file = os.open(_place_of(sandbox), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        if os.write(file, lines) < len(lines):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    finally:
        os.close(file)


def labels_of(sandbox: Path) -> frozenset[str]:
    """Return the labels of what was written into ``sandbox`` so far.

    Raises:
        OSError: they cannot be read.
    """
    try:
        file = os.open(_place_of(sandbox), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)  # ``open`` is a span of the call
    except FileNotFoundError:
        return frozenset()
    try:
        return frozenset(os.read(file, MAX_BYTES).decode("utf-8", "replace").split())
    finally:
        os.close(file)


def _place_of(sandbox: Path) -> Path:
    return sandbox.parent / f".labels-{sandbox.name}"  # no agent's name begins with a dot
