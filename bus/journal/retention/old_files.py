"""Delete old files of the logger observer."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from config.private_files import lock_private

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
    slot = lock_private(path.with_suffix(".lock"))  # see observers/logfile/rotated_file.py
    if slot is None:
        return False
    try:
        path.unlink()
        return True
    finally:
        os.close(slot)
