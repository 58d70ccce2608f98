"""Delete old files of the logger observer."""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from config.private_files import open_private

log = logging.getLogger(__name__)


def remove_old_logs(folder: Path, before_s: float) -> int:
    """Delete the files ``runs-….log`` last written before this time (seconds since 1970) and return how many.

    The current file of a live process stays, whatever its age; that process rotates it.
    """
    removed = 0
    for path in sorted(folder.glob("runs-*.log*")):
        try:
            if path.stat().st_mtime < before_s and _remove(path):
                removed += 1
        except FileNotFoundError:  # rotated, or deleted by another process
            continue
        except OSError as error:
            log.warning("an old log file could not be deleted: %s", error)
    return removed


def _remove(path: Path) -> bool:
    if path.suffix != ".log":  # rotated: no process writes to it any more
        path.unlink()
        return True
    with _slot(path.with_suffix(".lock")) as is_free:
        if is_free:
            path.unlink()
        return is_free


@contextmanager
def _slot(lock: Path) -> Iterator[bool]:
    """Take a log file's slot if it is free, and yield whether it was; see observers/logfile/slot.py."""
    fd = open_private(lock)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield os.path.samestat(os.fstat(fd), os.stat(lock))  # False: deleted and recreated by its owner
    except BlockingIOError:
        yield False
    finally:
        os.close(fd)
