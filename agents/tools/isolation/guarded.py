"""A command under its guard (``guard.py``): how it is started, and how its end is waited for and brought about."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

log = logging.getLogger(__name__)

GUARD = str(Path(__file__).with_name("guard.py"))
END_S = 30.0
"""Seconds that the guard may take to end the command, and to remove a container."""
_POLL_S = 0.01


def guarded_argv(
    argv: Sequence[str],
    *,
    wall_s: float = 0,
    limits: Mapping[str, int] | None = None,
    processes: int | None = None,
    cleanup: Sequence[str] = (),
    removed: Path | None = None,
) -> list[str]:
    """Return the command that executes ``argv`` under a guard of this process; ``wall_s`` 0 is no limit of time.

    ``limits`` are by their names in the module ``resource``; ``processes`` are those that it may add to the user's.
    ``removed`` is a folder that the guard removes at the end.
    """
    options = {
        "parent": os.getpid(),
        "wall_s": wall_s,
        "limits": dict(limits or {}),
        "processes": processes,
        "cleanup": list(cleanup),
        "removed": str(removed) if removed is not None else None,
    }
    return [sys.executable, "-I", "-S", GUARD, orjson.dumps(options).decode(), *argv]


async def ended(process: subprocess.Popen[bytes]) -> None:
    """Return when the process has ended."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except (AttributeError, OSError):  # not on this system
        while process.poll() is None:
            await asyncio.sleep(_POLL_S)
        return
    loop, noticed = asyncio.get_running_loop(), asyncio.Event()
    try:
        loop.add_reader(descriptor, noticed.set)
        while process.poll() is None:
            noticed.clear()
            await noticed.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


async def end(process: subprocess.Popen[bytes]) -> None:
    """Have the guard end the command, and wait for the guard; kill it where it does not answer."""
    if process.poll() is not None:
        return
    with suppress(OSError):
        process.terminate()
    try:
        async with asyncio.timeout(END_S):
            await ended(process)
    except TimeoutError:
        log.error("the guard of a subprocess did not end it", extra={"pid": process.pid})
        process.kill()
        await ended(process)


# --- limits


MIB = 1024 * 1024
_KERNEL = {
    "cpu_s": ("RLIMIT_CPU", 1),
    "memory_mb": ("RLIMIT_AS", MIB),
    "files": ("RLIMIT_NOFILE", 1),
    "file_mb": ("RLIMIT_FSIZE", MIB),
}
"""A limit that the kernel keeps for each process -> its name in the module ``resource``, and its unit there."""


def kernel_limits(limits: Mapping[str, int | None]) -> dict[str, int]:
    """Return the kernel's limits of a process, by their names in the module ``resource``; None is no limit."""
    by_name = {name: limits.get(name) for name in _KERNEL}
    return {_KERNEL[name][0]: most * _KERNEL[name][1] for name, most in by_name.items() if most is not None}


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessLimits:
    """The limits of a call; the kernel keeps all but the last two, which the worker keeps."""

    cpu_s: int = 60
    """Seconds of processor time."""
    memory_mb: int = 1024
    """MiB of address space of each process; of a container, of its memory."""
    files: int = 256
    """Open files of each process."""
    processes: int = 64
    """Processes and threads beside those of the worker's user; of a container, all in it."""
    file_mb: int = 64
    """MiB of the longest file that is written."""
    output_kb: int = 256
    """KiB of the standard output; a call that writes more is ended. Of a result 256 KiB are kept."""

    @property
    def by_resource(self) -> dict[str, int]:
        """The kernel's limits of a process, by their names in the module ``resource``."""
        return kernel_limits(asdict(self))
