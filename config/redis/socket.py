"""The socket of a state folder's Redis, which `up` starts and other processes of this machine find."""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import stat
import tempfile
from pathlib import Path

from config.private_files import open_private
from config.redis.url import socket_url

MAX_SOCKET_PATH = 100
"""Bytes. The kernel's limit is 108 with the closing zero, and a temporary name may be longer than the final one."""


def find_running(state: Path) -> str | None:
    """Return the URL of the state folder's own server if it answers."""
    path = socket_path(state, make=False)
    return socket_url(path) if answers(path) else None


def answers(path: Path, timeout_s: float = 1.0) -> bool:
    """Return whether a Redis answers PONG on this socket."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(timeout_s)
        try:
            connection.connect(str(path))
            connection.sendall(b"PING\r\n")
            return connection.recv(64).startswith(b"+PONG")
        except OSError:
            return False


def socket_path(state: Path, *, make: bool = True) -> Path:
    """Return the socket's path: in the state folder, or in the runtime folder if that path is too long."""
    path = state / "redis.sock"
    if len(os.fsencode(path)) <= MAX_SOCKET_PATH:
        return path
    pointer_file = state / "redis.sock.path"
    with contextlib.suppress(OSError):
        before = Path(pointer_file.read_text())
        if not make or _is_ours(before.parent):
            return before
    if not make:
        return path
    path = _runtime_folder(state) / "redis.sock"
    with os.fdopen(open_private(pointer_file), "w") as file:
        file.write(str(path))
    return path


def _runtime_folder(state: Path) -> Path:
    """Return a private folder with a short path; the same each time unless another user owns that name."""
    name = f"callboard-{os.getuid()}-{hashlib.sha256(os.fsencode(state)).hexdigest()[:16]}"
    places = [
        Path(candidate) for candidate in (os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir(), "/tmp") if candidate
    ]
    fitting = [
        candidate for candidate in places if len(os.fsencode(candidate / name / "redis.sock")) <= MAX_SOCKET_PATH
    ]
    runtime = next((candidate for candidate in fitting if os.access(candidate, os.W_OK)), places[-1])
    folder = runtime / name
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    return folder if _is_ours(folder) else Path(tempfile.mkdtemp(prefix="callboard-", dir=runtime))


def _is_ours(folder: Path) -> bool:
    try:
        facts = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid() and not facts.st_mode & 0o077
