"""One subprocess of a call: started without a shell, read with a limit, and ended with all of its descendants."""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from agents.tools.isolation.errors import CapabilityFailed
from agents.tools.isolation.guarded import end, ended, guarded_argv
from config.forks import after_fork

MAX_CHILDREN = 64
"""Subprocesses of one worker process at once; the next call waits."""
WAIT_S = 10.0
"""Seconds that a call waits for one of them to end."""
TAIL_BYTES = 4000
"""Bytes of the standard error's end that are kept."""
_POLL_S = 0.01

_places = threading.BoundedSemaphore(MAX_CHILDREN)


@after_fork
def _renew() -> None:
    """Give a forked child all its places: the parent's calls hold some."""
    global _places
    _places = threading.BoundedSemaphore(MAX_CHILDREN)


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """What is executed."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    """All of it; nothing of the worker's own is added."""
    folder: Path
    """Where it works."""
    stdin: bytes
    wall_s: float
    """Seconds after which it is ended although its worker does not end it."""
    max_output: int
    """Bytes of the standard output that are read; then it is ended."""
    limits: Mapping[str, int]
    """By their names in the module ``resource``."""
    processes: int | None = None
    """Processes and threads that it may add to those of the user; None: as many as the user."""
    cleanup: Sequence[str] = ()
    """The command that is executed after this one was interrupted."""
    removed: Path | None = None
    """The folder that is removed at its end."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finished:
    """What a command left."""

    code: int
    """Its exit status, or 128 and the number of the signal that ended it."""
    output: bytes
    is_cut: bool
    """Whether it wrote more than was read, and was ended."""
    errors: str
    """The end of its standard error."""


async def run_command(command: Command) -> Finished:
    """Execute a command to its end. When the caller is cancelled, the command and its descendants are killed.

    Raises:
        CapabilityFailed: no subprocess may, or can, be started.
    """
    await _take_place()
    try:
        return await _run(command)
    finally:
        _places.release()


async def _run(command: Command) -> Finished:
    loop = asyncio.get_running_loop()
    with ExitStack() as opened:
        process = _start(command, opened)
        assert process.stdout is not None
        assert process.stderr is not None
        opened.callback(process.stdout.close)
        opened.callback(process.stderr.close)
        try:
            output = Collector(command.max_output, on_full=process.terminate)
            errors = Collector(TAIL_BYTES, keeps_end=True)
            readers = [await _connect(loop, output, process.stdout), await _connect(loop, errors, process.stderr)]
            try:
                await ended(process)
                await asyncio.wait([output.ended, errors.ended], timeout=1)  # a process that escaped may hold them open
            finally:
                for reader in readers:
                    reader.close()
        finally:
            await end(process)
    text = bytes(errors.data).decode("utf-8", "replace")
    return Finished(code=process.returncode, output=bytes(output.data), is_cut=output.is_full, errors=text)


def _start(command: Command, opened: ExitStack) -> subprocess.Popen[bytes]:
    guarded = guarded_argv(
        command.argv,
        wall_s=command.wall_s,
        limits=command.limits,
        processes=command.processes,
        cleanup=command.cleanup,
        removed=command.removed,
    )
    try:
        return subprocess.Popen(
            guarded,
            stdin=opened.enter_context(_file_of(command.stdin)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(command.environment),
            cwd=command.folder,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise CapabilityFailed(f"no process could be started for it: {error}.") from error


def _file_of(data: bytes) -> IO[bytes]:
    """Return a file to read ``data`` from, so that a command that reads none of it cannot keep the worker waiting."""
    if hasattr(os, "memfd_create"):
        file: IO[bytes] = os.fdopen(os.memfd_create("callboard-input"), "w+b", buffering=0)
    else:
        file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - the caller closes it
    file.write(data)
    file.seek(0)
    return file


async def _connect(loop: asyncio.AbstractEventLoop, collector: Collector, pipe: IO[bytes]) -> asyncio.ReadTransport:
    transport, _ = await loop.connect_read_pipe(lambda: collector, os.fdopen(os.dup(pipe.fileno()), "rb", 0))
    return transport


async def _take_place() -> None:
    try:
        async with asyncio.timeout(WAIT_S):
            while not _places.acquire(blocking=False):
                await asyncio.sleep(_POLL_S)
    except TimeoutError as error:
        raise CapabilityFailed(f"it was not called: all {MAX_CHILDREN} places for subprocesses are taken.") from error


class Collector(asyncio.Protocol):
    """Keeps the beginning of what arrives, or its end; ``ended`` is done at the end of the pipe."""

    def __init__(self, max_bytes: int, *, keeps_end: bool = False, on_full: Callable[[], None] = lambda: None) -> None:
        """``on_full`` is called once, when more than ``max_bytes`` arrive and the beginning is kept."""
        self.data = bytearray()
        self.is_full = False
        """Whether something was left out."""
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._max_bytes, self._keeps_end, self._on_full = max_bytes, keeps_end, on_full

    def data_received(self, data: bytes) -> None:
        if self.is_full and not self._keeps_end:
            return
        self.data += data
        is_more = len(self.data) > self._max_bytes
        if is_more and self._keeps_end:
            del self.data[: -self._max_bytes]
        elif is_more:
            del self.data[self._max_bytes :]
            self._on_full()
        self.is_full = self.is_full or is_more

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)
