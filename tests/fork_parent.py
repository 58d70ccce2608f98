"""The parent of a fork server: it imports what a kind of process needs, once, and forks a process for each request.

    python -P -m tests.fork_parent SOCKET_FD MODULE...

A child gets its own pid, environment, files, signals and ``__main__``, as if it had been executed. The parent has one
thread and ends with its socket; the kernel signals its children then.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import json
import logging
import os
import runpy
import select
import signal
import socket
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass

from cli.supervisor.child import PR_SET_PDEATHSIG
from config.failpoints import VARIABLE as FAILPOINTS
from config.failpoints import set_failpoints

REQUEST_BYTES = 1 << 20
FILES = 2
"""With each request: the child's output, and the pipe that gets its pid and later its exit status."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """The process to fork."""

    module: str
    arguments: list[str]
    folder: str
    environment: dict[str, str]
    own_session: bool


def import_all(modules: list[str]) -> dict[str, str]:
    """Import the modules, or call what ``module:function`` names; return the variables that doing so set."""
    before = dict(os.environ)
    for name in modules:
        module, _, function = name.partition(":")
        imported = importlib.import_module(module)
        if function:
            getattr(imported, function)()
    threads = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
    if threads:
        raise SystemExit(f"an import starts threads, and a fork would lose them: {threads}")
    gc.collect()
    gc.freeze()
    return {name: value for name, value in os.environ.items() if before.get(name) != value}


def serve(requests: socket.socket) -> tuple[Request, int] | None:
    """Fork a child for each request until none is asked for; in a child, return what it is to be."""
    pipes: dict[int, tuple[int, int]] = {}  # of each child's pidfd: its pid, and the pipe for its status
    poll = select.poll()
    poll.register(requests, select.POLLIN)
    while True:
        for ready, _ in poll.poll():
            if ready != requests.fileno():
                poll.unregister(ready)
                _report(ready, *pipes.pop(ready))
                continue
            message, files, _, _ = socket.recv_fds(requests, REQUEST_BYTES, FILES)
            if not message:
                return None
            output, status = files
            pid = os.fork()
            if pid == 0:
                for descriptor in (requests.detach(), status, *pipes, *(pipe for _, pipe in pipes.values())):
                    os.close(descriptor)
                return Request(**json.loads(message)), output
            os.close(output)
            child = os.pidfd_open(pid)
            pipes[child] = (pid, status)
            poll.register(child, select.POLLIN)
            _write(status, pid)


def _report(child: int, pid: int, status: int) -> None:
    _write(status, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    os.close(status)
    os.close(child)


def _write(pipe: int, number: int) -> None:
    with suppress(BrokenPipeError):  # its reader is gone
        os.write(pipe, b"%d\n" % number)


def become(request: Request, output: int, environment: dict[str, str], parent: int) -> None:
    """Be the process that was asked for, as if it had been executed."""
    if request.own_session:
        os.setsid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it ended before the call
        os._exit(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, opened in ((0, nothing), (1, output), (2, output)):
        os.dup2(opened, number)
    os.close(nothing)
    os.close(output)
    os.chdir(request.folder)
    os.environ.clear()
    os.environ.update({**environment, **request.environment})
    set_failpoints(request.environment.get(FAILPOINTS, ""))
    gc.unfreeze()
    sys.argv = [request.module, *request.arguments]
    own = os.getpid()
    try:
        runpy.run_module(request.module, run_name="__main__", alter_sys=True)
    except SystemExit as ending:
        if os.getpid() == own and (ending.code is None or isinstance(ending.code, int)):
            atexit.register(end_without_teardown, ending.code or 0)
        raise


def end_without_teardown(status: int) -> None:
    """End this process with what it shares with its parent still in memory.

    The arbiter of a web process has modules here that an executed one lacks, and to free them takes 0.2 s of CPU.
    """
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def main(descriptor: str, *modules: str) -> None:
    """Serve, and in each child be it."""
    own = os.getpid()
    environment = import_all(list(modules))
    child = serve(socket.socket(fileno=int(descriptor)))
    if child is not None:
        request, output = child
        become(request, output, environment, own)


if __name__ == "__main__":
    main(*sys.argv[1:])
