"""The children of a prefork pool, watched by their parent: Celery replaces one that dies, and never looks for one that
is stopped, or whose interpreter is held by C code, and so keeps a slot for ever."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import struct

log = logging.getLogger(__name__)

_SIGN = struct.Struct("=I")
"""A child's process id: few enough bytes that the kernel never mixes two of them."""


class Brood:
    """Made by the parent before it forks; children call ``beat``, the parent ``turn``, each once a turn."""

    def __init__(self, patience_turns: int) -> None:
        self._patience_turns = patience_turns
        self._parent = os.getpid()
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)
        os.set_blocking(self._writing, False)
        self._unheard: dict[int, int] = {}

    @property
    def is_ours(self) -> bool:
        """Whether this process is one of the children."""
        return os.getpid() != self._parent

    def beat(self) -> None:
        """Let the parent know that this process lives. A full pipe has enough signs."""
        with contextlib.suppress(OSError):
            os.write(self._writing, _SIGN.pack(os.getpid()))

    def turn(self) -> None:
        """End each child that gave a sign once, and none for too many turns; the pool makes another."""
        for pid in self._unheard:
            self._unheard[pid] += 1
        self._unheard.update(dict.fromkeys(self._heard(), 0))
        for pid, unheard in list(self._unheard.items()):
            if not _is_running_child(pid):
                del self._unheard[pid]
            elif unheard >= self._patience_turns:
                del self._unheard[pid]
                log.warning("pool process gave no sign of life for %s s; it is ended pid=%s", unheard, pid)
                with contextlib.suppress(ProcessLookupError):  # the pool was quicker
                    os.kill(pid, signal.SIGKILL)

    def _heard(self) -> set[int]:
        try:
            signs = os.read(self._reading, 16384 * _SIGN.size)
        except BlockingIOError:
            return set()
        return {pid for (pid,) in _SIGN.iter_unpack(signs)}


def _is_running_child(pid: int) -> bool:
    """Return whether the process is our child still: a number may be another's by now, and a dead one is the pool's."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ChildProcessError:
        return False
