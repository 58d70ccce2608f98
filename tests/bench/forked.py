"""What a forked child computes, whose memory is measured from zero."""

from __future__ import annotations

import os
import pickle
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def in_child(compute: Callable[[], T]) -> T:
    """Return what a forked child computed; to be called before the process has threads or a loop.

    Raises:
        RuntimeError: the child ended without a result; what it raised is on standard error.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            with os.fdopen(writing, "wb") as pipe:
                pickle.dump(compute(), pipe)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    if not data:
        raise RuntimeError("a measurement's process ended without a result")
    result: T = pickle.loads(data)  # of our own child
    return result


def resident() -> int:
    """Return this process's memory, in bytes."""
    return _status("VmRSS")


def forget_peak() -> int:
    """Have the kernel keep this process's peak of memory from now on, and return the memory now, in bytes."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def peak() -> int:
    """Return the peak of this process's memory, in bytes."""
    return _status("VmHWM")


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))
