"""Whether files have changed since they were read: what is read from them is kept until then."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple


class FileStamp(NamedTuple):
    """What differs after an edit, also one within the clock's resolution or by a rename."""

    path: str
    changed_ns: int
    size: int
    inode: int


def stamp_of(path: Path) -> FileStamp:
    """Return the stamp of a file.

    Raises:
        OSError: the system does not let this process look at it.
    """
    facts = path.stat()
    return FileStamp(str(path), facts.st_mtime_ns, facts.st_size, facts.st_ino)


Stamps = tuple[FileStamp, ...]


class WatchedFiles:
    """Files that are read again when they have changed, and not while they stay as they are, also if they are invalid.

    ``mark_read`` takes what ``changed`` returned before the files were read. Without it the files count as changed at
    the next look, too: after an error of this moment, behind which a valid edit may be.
    """

    def __init__(self, paths: Callable[[], Iterable[Path]]) -> None:
        """``paths`` returns the files at each look; none has been read yet."""
        self._paths = paths
        self._read: Stamps | None = None

    def changed(self) -> Stamps | None:
        """Return the stamps of the files; None where they are those of the files that were read."""
        stamps = tuple(_stamp_or_none(path) for path in self._paths())
        return None if stamps == self._read else stamps

    def mark_read(self, stamps: Stamps | None) -> None:
        """Take the files as they were then for read; None: whatever they are, they have changed."""
        self._read = stamps


def _stamp_or_none(path: Path) -> FileStamp:
    try:
        return stamp_of(path)
    except OSError:
        return FileStamp(str(path), 0, 0, 0)
