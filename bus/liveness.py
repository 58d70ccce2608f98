"""Liveness: a thread writes a byte a second to the supervisor, and ends the process if its event loop is stuck.

If the thread cannot run (the process is stopped, or C code holds the interpreter lock), the supervisor gets no bytes
and kills the process. If the thread runs and the loop does not turn, the thread logs the loop's stack and ends the
process. Before that the lease manager (``bus/journal/ownership/lease_manager.py``) stops extending the leases of such a
loop, so other workers take its runs when the leases expire, or as soon as they see that the process has ended.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import signal
import struct
import threading
from collections.abc import Callable

from bus.loop import ProcessLoop

log = logging.getLogger(__name__)

LIVENESS_PIPE = "_PULSE_PIPE"
"""Environment variable with the inherited pipe, as ``descriptor:inode``; not ``CALLBOARD_…``: it is no setting."""
WEDGED_STATUS = 75
"""Exit status of a process whose loop was stuck: EX_TEMPFAIL of sysexits.h."""
TURN_S = 1.0
SHORTEST_S = 5.0
"""A loop that is late by less is slow, not stuck, even with shorter leases."""
LOG_S = 2.0
"""How long logging the stack may take: the stuck thread may hold the log's lock."""


def wedged_after_s(lease_s: float) -> float:
    """Return after how many seconds without a sign a process counts as wedged: the length of a lease."""
    return max(lease_s, SHORTEST_S)


_prefork_watchdog: PreforkWatchdog | None = None


def start_liveness(loop: ProcessLoop | None, lease_s: float) -> None:
    """Start the liveness thread: it signals the supervisor, if there is one, and watches ``loop``.

    Without a loop this process is the parent of a prefork pool, and the thread watches its children.
    """
    global _prefork_watchdog
    patience_s = wedged_after_s(lease_s)
    duties: list[Callable[[], None]] = []
    if (pipe := LivenessPipe.inherited()) is not None:
        duties.append(pipe.beat)
    if loop is None:
        _prefork_watchdog = PreforkWatchdog(math.ceil(patience_s / TURN_S))
        duties.append(_prefork_watchdog.turn)
    else:
        duties.append(LoopWatch(loop, patience_s).turn)
        if _prefork_watchdog is not None and _prefork_watchdog.is_ours:
            duties.append(_prefork_watchdog.beat)
    for duty in duties:
        duty()  # the first sign at once, so that silence is noticed from now on
    threading.Thread(target=_do_each_turn, args=(duties,), name="liveness", daemon=True).start()


def _do_each_turn(duties: list[Callable[[], None]]) -> None:
    pause = threading.Event()
    while not pause.wait(TURN_S):
        for duty in duties:
            duty()


class LoopWatch:
    """Pings a loop each turn. It counts turns, not seconds, since none pass while this process is stopped."""

    def __init__(self, loop: ProcessLoop, patience_s: float) -> None:
        self._loop = loop
        self._turns = math.ceil(patience_s / TURN_S)
        self._unanswered = 0
        self._answered = threading.Event()
        self._answered.set()

    def turn(self) -> None:
        """End this process if its loop is stuck."""
        if self.is_stuck():
            self.end_process()

    def is_stuck(self) -> bool:
        """Return whether the loop has not answered for too long; call it once a turn."""
        if self._answered.is_set():
            self._answered.clear()
            self._unanswered = 0
            self._loop.call_soon(self._answered.set)
        else:
            self._unanswered += 1
        return self._unanswered >= self._turns

    def end_process(self) -> None:
        """Log the loop's stack, and end this process whatever its other threads do."""
        logger = threading.Thread(target=self._log_stack, daemon=True)
        logger.start()
        logger.join(LOG_S)
        os._exit(WEDGED_STATUS)

    def _log_stack(self) -> None:
        log.critical(
            "the event loop did not turn for %.0f s; this process ends with status %s, other workers resume its runs. "
            "A coroutine blocks (an async tool that should be a plain function?): task=%r stack:\n%s",
            self._turns * TURN_S,
            WEDGED_STATUS,
            self._loop.current_task(),
            self._loop.stack(),
        )


class LivenessPipe:
    """The write end of the supervisor's pipe. Other code may close it, and its number may become another file's."""

    def __init__(self, descriptor: int, inode: int) -> None:
        self._descriptor = descriptor
        self._inode = inode

    @classmethod
    def inherited(cls) -> LivenessPipe | None:
        """Return the supervisor's pipe at the first call; None without a supervisor, and at later calls."""
        descriptor, _, inode = os.environ.pop(LIVENESS_PIPE, "").partition(":")
        if not (descriptor.isdigit() and inode.isdigit()):
            return None
        pipe = cls(int(descriptor), int(inode))
        if not pipe._is_ours():
            return None
        os.set_blocking(pipe._descriptor, False)
        os.set_inheritable(pipe._descriptor, False)
        os.register_at_fork(after_in_child=pipe.close)  # a child must not signal for its parent
        return pipe

    def beat(self) -> None:
        """Write a byte, ignoring a full pipe and a supervisor that has ended."""
        if self._is_ours():
            with contextlib.suppress(OSError):
                os.write(self._descriptor, b".")

    def close(self) -> None:
        if self._is_ours():
            os.close(self._descriptor)

    def _is_ours(self) -> bool:
        try:
            return os.fstat(self._descriptor).st_ino == self._inode
        except OSError:
            return False


# --- the watchdog of a prefork pool -----------------------------------------------------------------

_SIGN = struct.Struct("=I")
"""A child's process id; writes this short are atomic."""


class PreforkWatchdog:
    """The parent of a prefork pool kills stuck children.

    Celery replaces a child that dies, but not one that is stopped or whose interpreter lock is held by C code, which
    would keep its slot for ever. Created by the parent before it forks; children call ``beat``, the parent ``turn``,
    each once a turn.
    """

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
