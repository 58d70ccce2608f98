"""Opens a file below a folder by descriptor, so that no path can lead out of the folder.

A path that is checked first and opened later can be replaced in between (CVE-2025-53109). Here the kernel resolves and
opens it in one call, or each component is opened from the previous one without following links.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache

Opener = Callable[[int, Sequence[str], int], int]
"""Takes the folder's descriptor, the names from it and flags; returns a descriptor or raises OSError."""

_NO_XDEV, _NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x01, 0x02, 0x04, 0x08
_SYS_OPENAT2 = 437
"""The same number on x86_64 and aarch64."""
FOLDER_FLAGS = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def open_by_kernel(folder: int, names: Sequence[str], flags: int) -> int:
    """Open with openat2 (Linux 5.6), which refuses links, mounts and paths out of the folder."""
    how = _OpenHow(flags=flags, mode=0, resolve=_BENEATH | _NO_SYMLINKS | _NO_MAGICLINKS | _NO_XDEV)
    path = "/".join(names).encode() or b"."
    for _ in range(8):
        descriptor = _libc().syscall(_SYS_OPENAT2, folder, path, ctypes.byref(how), ctypes.sizeof(how))
        if descriptor >= 0:
            return int(descriptor)
        if ctypes.get_errno() not in (errno.EAGAIN, errno.EINTR):  # EAGAIN: a concurrent rename
            break
    number = ctypes.get_errno()
    raise OSError(number, os.strerror(number))


def open_by_walk(folder: int, names: Sequence[str], flags: int) -> int:
    """Open each component from the previous one without following links; for systems without openat2."""
    current = os.open(".", FOLDER_FLAGS, dir_fd=folder)
    try:
        device = os.fstat(current).st_dev
        for name in names[:-1]:
            below = os.open(name, FOLDER_FLAGS, dir_fd=current)
            os.close(current)
            current = below
        target = os.open(names[-1] if names else ".", flags | os.O_NOFOLLOW, dir_fd=current)
    finally:
        os.close(current)
    if os.fstat(target).st_dev != device:
        os.close(target)
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
    return target


@lru_cache(maxsize=1)
def best_opener() -> Opener:
    """Return ``open_by_kernel`` where openat2 works (a seccomp filter may forbid it), else ``open_by_walk``."""
    if not sys.platform.startswith("linux") or platform.machine() not in ("x86_64", "aarch64"):
        return open_by_walk
    folder = os.open("/", FOLDER_FLAGS)
    try:
        os.close(open_by_kernel(folder, (), FOLDER_FLAGS))
    except OSError:
        return open_by_walk
    finally:
        os.close(folder)
    return open_by_kernel


@lru_cache(maxsize=1)
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
