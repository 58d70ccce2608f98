"""A command under its guard (``guard.py``): how it is started, and how its end is waited for and brought about."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
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
