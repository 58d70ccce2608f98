"""The sandbox folder of an agent's files; nothing outside it can be read, written or probed for existence."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import secrets
import stat
import sys
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from agents.errors import SANDBOX_FULL, STORAGE_PROBLEMS, PathRefused, storage_full
from agents.tools.spans.collector import span_if_collecting

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


# --- files that are opened below a folder


MAX_READ = 256 * 1024
"""Bytes of the largest file that is read."""
MAX_WRITE = 1024 * 1024
"""Bytes of the largest file that is written."""
MAX_PATH = 1024
"""Bytes of the longest path."""
MAX_LEVELS = 16
"""Deepest folder below the sandbox."""
MAX_LISTED = 500
"""Files a listing shows."""

_TEMPORARY = ".callboard-"
_READ_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY
_NEW_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f")
"""Bidirectional control characters, which make a name look like another one."""
_REASONS = {
    errno.ENOENT: "there is no such file",
    errno.ENOTDIR: "part of it is a file and not a folder",
    errno.EISDIR: "it is a folder",
    errno.ELOOP: "links are not followed",
    errno.EXDEV: "it leads out of the sandbox",
    errno.ENAMETOOLONG: "the name is too long",
    errno.EACCES: "the file system does not allow it",
    errno.EPERM: "the file system does not allow it",
    errno.ENXIO: "it is not a plain file",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class File:
    """A file as a listing shows it."""

    path: str
    """From the sandbox, with slashes."""
    size: int
    """Bytes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Quota:
    """How much a sandbox may hold; 0: any number."""

    max_bytes: int = 100 * 1024 * 1024
    max_files: int = 1000
    """Files and folders."""


class Sandbox:
    """Files below one folder, each opened by descriptor. Errors are ``PathRefused`` with a sentence."""

    def __init__(self, folder: Path, opener: Opener | None = None, quota: Quota | None = None) -> None:
        self._folder = folder
        self._quota = quota or Quota()
        self._open = opener or best_opener()

    def read_text(self, path: str) -> str:
        """Return the text of a file; bytes that are not UTF-8 become replacement characters."""
        with span_if_collecting("file", f"read {path}", path=path, mode="r") as span:
            text = self._text_of(path)
            if span is not None:
                span.facts["chars"] = len(text)
            return text

    def _text_of(self, path: str) -> str:
        names = _names(path)
        with self._root() as root, _as_refusal(path), _closing(self._open(root, names, _READ_FLAGS)) as descriptor:
            size = _plain_file(descriptor, path)
            if size > MAX_READ:
                raise _refused(path, f"it has {size:,} bytes and at most {MAX_READ:,} are read")
            with open(descriptor, "rb", closefd=False) as file:
                return file.read(MAX_READ).decode("utf-8", "replace")

    def write_text(self, path: str, text: str) -> int:
        """Write ``text`` to the file ``path``, create missing folders, and return the size in bytes.

        The file is replaced atomically. Writes at the same moment do not see each other, so they can exceed the quota.

        Raises:
            SANDBOX_FULL: the sandbox would hold more than its quota.
        """
        with span_if_collecting("file", f"write {path}", path=path, mode="w") as span:
            size = self._write(path, text)
            if span is not None:
                span.facts["bytes"] = size
            return size

    def _write(self, path: str, text: str) -> int:
        names = _names(path)
        data = text.encode("utf-8", "replace")
        if len(data) > MAX_WRITE:
            raise _refused(path, f"the text has {len(data):,} bytes and at most {MAX_WRITE:,} are written")
        with self._root() as root, _as_refusal(path):
            self._require_room(root, names, len(data))
        with self._root() as root, _as_refusal(path), _closing(self._folder_of(root, names)) as folder:
            self._refuse_odd_target(folder, names[-1], path)
            _replace(folder, names[-1], data)
        return len(data)

    def files(self, path: str = "") -> list[File]:
        """Return the plain files below ``path``, by name, at most ``MAX_LISTED``."""
        with span_if_collecting("file", f"list {path or '.'}", path=path or ".", mode="list"):
            return self._listing(path)

    def _listing(self, path: str) -> list[File]:
        names = _names(path) if path not in ("", ".", "./") else []
        files: list[File] = []
        if not names and not self._folder.exists():  # nothing was written so far
            return files
        with self._root() as root, _as_refusal(path or "."), _closing(self._open(root, names, FOLDER_FLAGS)) as folder:
            self._collect(folder, "/".join(names), files, MAX_LEVELS)
        return files

    def _require_room(self, root: int, names: list[str], size: int) -> None:
        """Raise ``SANDBOX_FULL`` if the file with ``size`` bytes, and its missing folders, would exceed the quota."""
        sizes = dict(self._entries(root, (), MAX_LEVELS))
        path = tuple(names)
        new = [path[:depth] for depth in range(1, len(path) + 1) if path[:depth] not in sizes]
        used_bytes = sum(sizes.values()) - sizes.get(path, 0)
        quota = self._quota
        if quota.max_bytes and used_bytes + size > quota.max_bytes:
            raise SANDBOX_FULL(
                f"the file would have {size:,} bytes, the other files have {used_bytes:,}, and together "
                f"{quota.max_bytes:,} are allowed; write less, or replace a file that is not needed with an empty text."
            )
        if new and quota.max_files and len(sizes) + len(new) > quota.max_files:
            raise SANDBOX_FULL(
                f"the sandbox has {len(sizes):,} files and folders, and {quota.max_files:,} are allowed; replace one "
                "that is not needed instead of writing another."
            )

    def _entries(self, folder: int, above: tuple[str, ...], levels: int) -> Iterator[tuple[tuple[str, ...], int]]:
        """Yield the path and the bytes of everything below a folder, also of what is not listed."""
        for name in os.listdir(folder):
            with suppress(OSError):  # gone meanwhile
                facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
                is_folder = stat.S_ISDIR(facts.st_mode)
                yield (*above, name), 0 if is_folder else facts.st_size
                if is_folder and levels > 1:
                    with _closing(self._open(folder, [name], FOLDER_FLAGS)) as inner:
                        yield from self._entries(inner, (*above, name), levels - 1)

    @contextmanager
    def _root(self) -> Iterator[int]:
        try:
            descriptor = os.open(self._folder, FOLDER_FLAGS & ~os.O_NOFOLLOW)
        except FileNotFoundError as error:
            raise PathRefused("there is no such file: the sandbox is empty.") from error
        except OSError as error:
            raise PathRefused(f"the sandbox folder cannot be opened: {error.strerror}.") from error
        with _closing(descriptor):
            yield descriptor

    def _folder_of(self, root: int, names: list[str]) -> int:
        """Return a descriptor of the file's folder, creating missing folders."""
        folder = os.dup(root)
        for name in names[:-1]:
            try:
                with suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=folder)
                below = self._open(folder, [name], FOLDER_FLAGS)
            finally:
                os.close(folder)
            folder = below
        return folder

    def _refuse_odd_target(self, folder: int, name: str, path: str) -> None:
        """Refuse to replace anything but a plain file. A later replacement is harmless: a rename follows no links."""
        try:
            descriptor = self._open(folder, [name], _READ_FLAGS)
        except FileNotFoundError:
            return
        with _closing(descriptor):
            _plain_file(descriptor, path)

    def _collect(self, folder: int, prefix: str, files: list[File], levels: int) -> None:
        for name in sorted(os.listdir(folder)):
            if len(files) >= MAX_LISTED:
                return
            if name.startswith(_TEMPORARY):
                continue
            with suppress(OSError):  # gone meanwhile
                facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
                below = f"{prefix}/{name}" if prefix else name
                if stat.S_ISREG(facts.st_mode):
                    files.append(File(path=below, size=facts.st_size))
                elif stat.S_ISDIR(facts.st_mode) and levels > 1:
                    with _closing(self._open(folder, [name], FOLDER_FLAGS)) as inner:
                        self._collect(inner, below, files, levels - 1)


def _names(path: str) -> list[str]:
    """Return the names ``path`` consists of; nothing in it is expanded, decoded or normalised.

    A file has one path, so that a rule of the policy about a path is one about the file.
    """
    if "\0" in path or any(letter in _TURNING or unicodedata.category(letter) == "Cc" for letter in path):
        raise _refused(path, "names may not hold control characters")
    try:
        size = len(path.encode())
    except UnicodeEncodeError as error:
        raise _refused(path, "half of a surrogate pair is not a name") from error
    if size > MAX_PATH:
        raise _refused(path, f"the path has {size:,} bytes and at most {MAX_PATH:,} are read")
    if path.startswith("/"):
        raise _refused(path, "it is absolute; write it from the sandbox's folder, like notes.txt")
    names = [name for name in path.split("/") if name not in ("", ".")]
    if ".." in names:
        raise _refused(path, "it leads out of the sandbox")
    if not names or path.endswith(("/", "/.")):
        raise _refused(path, "it names no file")
    if names != path.split("/"):  # a policy's rule about the path would not match it
        raise _refused(path, f"it has empty or '.' parts; write {'/'.join(names)!r}")
    if len(names) > MAX_LEVELS:
        raise _refused(path, f"it is more than {MAX_LEVELS} folders deep")
    if names[-1].startswith(_TEMPORARY):
        raise _refused(path, "the name is reserved")
    return names


def _plain_file(descriptor: int, path: str) -> int:
    """Return the size of an open plain file; refuse other kinds, and files with a second hard link."""
    facts = os.fstat(descriptor)
    if stat.S_ISDIR(facts.st_mode):
        raise _refused(path, "it is a folder")
    if not stat.S_ISREG(facts.st_mode):
        raise _refused(path, "it is not a plain file")
    if facts.st_nlink > 1:
        raise _refused(path, "it is also linked from elsewhere")
    return facts.st_size


def _replace(folder: int, name: str, data: bytes) -> None:
    temporary = f"{_TEMPORARY}{secrets.token_hex(8)}"
    descriptor = os.open(temporary, _NEW_FLAGS, 0o600, dir_fd=folder)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise


@contextmanager
def _closing(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _as_refusal(path: str) -> Iterator[None]:
    """Turn an ``OSError`` into a ``PathRefused`` that names the path as it was given, or into a ``STORAGE_FULL``."""
    try:
        yield
    except OSError as error:
        if error.errno in STORAGE_PROBLEMS:
            raise storage_full("the file cannot be written", error) from error
        reason = _REASONS.get(error.errno or 0, os.strerror(error.errno or 0).lower())
        raise _refused(path, reason) from error


def _refused(path: str, reason: str) -> PathRefused:
    display_path = path[:80].encode("utf-8", "backslashreplace").decode()
    return PathRefused(
        f"{ascii(display_path) if not display_path.isprintable() else repr(display_path)} cannot be used: {reason}."
    )
