"""The sandbox of one call: its folder is made when the call asks for it, and labels follow what is in the files.

A call may put what the run has read into a file, and a later run that reads the file has read it too. So the labels of
the run are noted before the call gets the folder, and those of the files are read after it has read them. They are kept
beside the folder, where no file tool reaches: a line for each label, added and never taken away.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection
from pathlib import Path

from agents.tool_errors import storage_full
from config.errors import ToolFailed
from config.policy_decision import READ_FROM
from config.private_files import private_folder

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
