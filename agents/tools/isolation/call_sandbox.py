"""The sandbox of one call: its folder is made when the call asks for it, and labels follow what is in the files.

A call may put what the run has read into a file, and a later run that reads the file has read it too. So the labels of
the run are noted before the call gets the folder, and those of the files are read after it has read them.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from agents.tool_errors import StorageFull
from agents.tools.file_labels import labels_of, note_labels
from config.errors import ToolFailed
from config.private_files import private_folder


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
            StorageFull: the folder or the labels cannot be written.
        """
        try:
            if not os.path.isdir(self._path):  # looking at all folders above takes a hundred times as long
                private_folder(self._path)
            note_labels(self._path, self._labels)
        except OSError as error:
            raise StorageFull("the sandbox folder cannot be written", error) from error
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
