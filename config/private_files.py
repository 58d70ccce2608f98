"""Files of the state folder: readable by their owner alone, and never symbolic links."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from pathlib import Path

from config.errors import STATE_DIR_EXPOSED

OTHERS = stat.S_IRWXG | stat.S_IRWXO
SIGNS = frozenset({"up.lock", "callboard.db"})
"""Files that identify a state folder; Callboard changes the permissions of no other folder."""
PRIVATE_UMASK = 0o077
KEPT = (
    "callboard.db",
    "up.",
    "runs-",
    "worker",
    "redis.sock.path",
    "warm-up.lock",
    "local-token",
    "open.html",
    "chat-",
)
"""Prefixes of the files that Callboard creates there and in ``logs``."""
REMEDY = "choose another with --state-dir or CALLBOARD_STATE_DIR."


def private_folder(folder: Path) -> Path:
    """Create ``folder`` and its missing parents with access for their owner alone, and return it."""
    missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    for missing_folder in reversed(missing):
        missing_folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def open_private(path: str | Path, flags: int = os.O_RDWR) -> int:
    """Open ``path``, created if missing and accessible to its owner alone, and return the descriptor.

    Raises:
        OSError: it cannot be opened, or is a symbolic link (``ELOOP``).
    """
    descriptor = os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    facts = os.fstat(descriptor)
    if stat.S_ISREG(facts.st_mode) and facts.st_mode & OTHERS and facts.st_uid == os.geteuid():
        os.fchmod(descriptor, 0o600)
    return descriptor


def lock_private(path: Path) -> int | None:
    """Return a descriptor of ``path``, opened as ``open_private`` does and locked; None if another process has it.

    Raises:
        OSError: as ``open_private``, or the file system has no locks.
    """
    while True:
        fd = open_private(path)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            if isinstance(error, BlockingIOError):
                return None
            raise
        if is_at(fd, path):
            return fd
        os.close(fd)  # deleted between open and lock: no process holds that name yet


def is_at(fd: int, path: Path) -> bool:
    """Return whether the open file still has this path."""
    with contextlib.suppress(OSError):
        return os.path.samestat(os.fstat(fd), os.stat(path))
    return False


def narrow_state_folder(folder: Path) -> None:
    """Restrict a state folder of ours, and our files in it, to their owner.

    Raises:
        STATE_DIR_EXPOSED: a file of ours in it is a symbolic link, so that another file would be written to.
    """
    if not _is_ours(folder):
        return
    if folder.stat().st_mode & OTHERS:
        folder.chmod(0o700)
    for directory in (folder, folder / "logs"):
        for path in directory.iterdir() if directory.is_dir() else ():
            if path.name.startswith(KEPT):
                _narrow(path)


def require_private(folder: Path) -> None:
    """Return if only this user and root can read the folder.

    Raises:
        STATE_DIR_EXPOSED: other users can, or the folder belongs to one.
    """
    facts = folder.stat()
    if facts.st_uid not in (os.geteuid(), 0):
        raise STATE_DIR_EXPOSED(f"the state folder {folder} belongs to another user; {REMEDY}")
    if facts.st_mode & OTHERS:
        raise STATE_DIR_EXPOSED(
            f"other users can open the state folder {folder} (its permissions are {facts.st_mode & 0o7777:o}), "
            f"which holds prompts, answers and a socket; `chmod 700 {folder}`, or {REMEDY}"
        )


def _is_ours(folder: Path) -> bool:
    """Whether the folder belongs to this user and is empty or was a state folder before."""
    facts = folder.stat()
    if facts.st_uid != os.geteuid() or facts.st_mode & stat.S_ISVTX:
        return False
    names = set(os.listdir(folder))
    return not names or not names.isdisjoint(SIGNS)


def _narrow(path: Path) -> None:
    facts = path.lstat()
    if stat.S_ISLNK(facts.st_mode):
        raise STATE_DIR_EXPOSED(f"{path} is a symbolic link; remove it, or {REMEDY}")
    if stat.S_ISREG(facts.st_mode) and facts.st_mode & OTHERS and facts.st_uid == os.geteuid():
        path.chmod(0o600)
