"""Opening a file below a folder by descriptor, so that no name can lead out of it, whatever happens meanwhile.

A checked string that is opened later can be swapped in between (CVE-2025-53109 and its kin); here the
kernel resolves and opens in one call, or every step is opened from the one before without following links.
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
    """Open with openat2, which refuses links, mounts and every way out in one step (Linux 5.6)."""
    how = _OpenHow(flags=flags, mode=0, resolve=_BENEATH | _NO_SYMLINKS | _NO_MAGICLINKS | _NO_XDEV)
    path = "/".join(names).encode() or b"."
    for _ in range(8):
        descriptor = _libc().syscall(_SYS_OPENAT2, folder, path, ctypes.byref(how), ctypes.sizeof(how))
        if descriptor >= 0:
            return int(descriptor)
        if ctypes.get_errno() not in (errno.EAGAIN, errno.EINTR):  # EAGAIN: somebody renamed meanwhile
            break
    number = ctypes.get_errno()
    raise OSError(number, os.strerror(number))


def open_by_walk(folder: int, names: Sequence[str], flags: int) -> int:
    """Open name by name, each from the folder before, never following a link. Where openat2 is missing."""
    here = os.open(".", FOLDER_FLAGS, dir_fd=folder)
    try:
        device = os.fstat(here).st_dev
        for name in names[:-1]:
            below = os.open(name, FOLDER_FLAGS, dir_fd=here)
            os.close(here)
            here = below
        target = os.open(names[-1] if names else ".", flags | os.O_NOFOLLOW, dir_fd=here)
    finally:
        os.close(here)
    if os.fstat(target).st_dev != device:
        os.close(target)
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
    return target


@lru_cache(maxsize=1)
def best_opener() -> Opener:
    """Return the kernel's way where it works (a seccomp filter may forbid it), else the walk."""
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
