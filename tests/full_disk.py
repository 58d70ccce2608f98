"""A full disk for this process: the kernel refuses every write by which a file would grow."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def full_disk(file: Path, room_for: int = 0) -> Iterator[None]:
    """Let no file of this process grow beyond the present size of this one and ``room_for`` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file.stat().st_size + room_for, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
