"""The parent of a prefork pool kills stuck children: Celery replaces a child that dies, but not one that is stopped or
whose interpreter lock is held by C code, which would keep its slot for ever."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import struct

log = logging.getLogger(__name__)

_SIGN = struct.Struct("=I")
"""A child's process id; writes this short are atomic."""


class PreforkWatchdog:
    """Created by the parent before it forks; children call ``beat``, the parent ``turn``, each once a turn."""

    def __init__(self, patience_turns: int) -> None:
        self._patience_turns = patience_turns
        self._parent = os.getpid()
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        os.set_blocking(self._write_end, False)
        self._missed_turns: dict[int, int] = {}

    @property
    def is_ours(self) -> bool:
        return os.getpid() != self._parent

    def beat(self) -> None:
        """Signal the parent that this process lives, ignoring a full pipe."""
        with contextlib.suppress(OSError):
            os.write(self._write_end, _SIGN.pack(os.getpid()))

    def turn(self) -> None:
        """Kill each child that signalled once, and not for too many turns; the pool starts another."""
        for pid in self._missed_turns:
            self._missed_turns[pid] += 1
        self._missed_turns.update(dict.fromkeys(self._read_signs(), 0))
        for pid, missed_turns in list(self._missed_turns.items()):
            if not _is_running_child(pid):
                del self._missed_turns[pid]
            elif missed_turns >= self._patience_turns:
                del self._missed_turns[pid]
                log.warning("pool process gave no sign of life for %s s; it is ended pid=%s", missed_turns, pid)
                with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                    os.kill(pid, signal.SIGKILL)

    def _read_signs(self) -> set[int]:
        try:
            signs = os.read(self._read_end, 16384 * _SIGN.size)
        except BlockingIOError:
            return set()
        return {pid for (pid,) in _SIGN.iter_unpack(signs)}


def _is_running_child(pid: int) -> bool:
    """Return whether the process is a live child of ours; the id may belong to another process by now."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ChildProcessError:
        return False
