"""Signs of life: a byte a second to whoever started this process, and an end to a process whose loop is stuck.

A thread does both. Where it cannot run (the process is stopped, or C code holds the interpreter), the supervisor hears
nothing and ends the process; where it runs and the loop does not turn, it says what the loop is stuck in and ends the
process itself. The keeper stops beating for such a loop before that (``bus/journal/keeper.py``), so other workers take
its runs when the leases run out, or as soon as they see that the process has ended.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import threading
from collections.abc import Callable

from bus.brood import Brood
from bus.loop import ProcessLoop

log = logging.getLogger(__name__)

PULSE_PIPE = "_PULSE_PIPE"
"""Environment variable with the inherited pipe, as ``descriptor:inode``. Not ``CALLBOARD_…``: it is no setting."""
WEDGED_STATUS = 75
"""Exit status of a process whose loop was stuck; EX_TEMPFAIL of sysexits.h: start me again."""
TURN_S = 1.0
SHORTEST_S = 5.0
"""A loop that is late by less is slow, not stuck, however short the leases are."""
TELL_S = 2.0
"""How long saying what happened may take: the stuck thread may hold the log's lock."""


def wedged_after_s(lease_s: float) -> float:
    """Return after how many seconds without a sign a process counts as wedged: as long as its leases last."""
    return max(lease_s, SHORTEST_S)


_brood: Brood | None = None


def start_pulse(loop: ProcessLoop | None, lease_s: float) -> None:
    """Tell who started us, if they listen, that we live; and watch over ``loop``.

    Without a loop this is the parent of a prefork pool, which watches over its children.
    """
    global _brood
    patience_s = wedged_after_s(lease_s)
    duties: list[Callable[[], None]] = []
    if (heart := Heart.inherited()) is not None:
        duties.append(heart.beat)
    if loop is None:
        _brood = Brood(math.ceil(patience_s / TURN_S))
        duties.append(_brood.turn)
    else:
        duties.append(LoopWatch(loop, patience_s).turn)
        if _brood is not None and _brood.is_ours:
            duties.append(_brood.beat)
    for duty in duties:
        duty()  # a first sign now: from here on silence is noticed
    threading.Thread(target=_do_each_turn, args=(duties,), name="pulse", daemon=True).start()


def _do_each_turn(duties: list[Callable[[], None]]) -> None:
    pause = threading.Event()
    while not pause.wait(TURN_S):
        for duty in duties:
            duty()


class LoopWatch:
    """Asks a loop each turn to answer. Turns are counted, not seconds: while this process is stopped, none pass."""

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
        """Say where the loop is stuck, and end this process whatever its other threads do."""
        teller = threading.Thread(target=self._tell, daemon=True)
        teller.start()
        teller.join(TELL_S)
        os._exit(WEDGED_STATUS)

    def _tell(self) -> None:
        log.critical(
            "the event loop did not turn for %.0f s; this process ends with status %s, its runs go on elsewhere. "
            "Something blocks in a coroutine (an async tool that should be a plain function?): task=%r stack:\n%s",
            self._turns * TURN_S, WEDGED_STATUS, self._loop.current_task(), self._loop.stack(),
        )  # fmt: skip


class Heart:
    """The writing end of the supervisor's pipe. Somebody may have closed it, and its number be another file's now."""

    def __init__(self, descriptor: int, inode: int) -> None:
        self._descriptor = descriptor
        self._inode = inode

    @classmethod
    def inherited(cls) -> Heart | None:
        """Return the pipe our supervisor listens to, the first time it is asked for; None where nobody listens."""
        descriptor, _, inode = os.environ.pop(PULSE_PIPE, "").partition(":")
        if not (descriptor.isdigit() and inode.isdigit()):
            return None
        heart = cls(int(descriptor), int(inode))
        if not heart._is_ours():
            return None
        os.set_blocking(heart._descriptor, False)
        os.set_inheritable(heart._descriptor, False)
        os.register_at_fork(after_in_child=heart.close)  # a child does not speak for us
        return heart

    def beat(self) -> None:
        """Write a byte. A full pipe has enough of them, and a listener who is gone is no reason to end."""
        if self._is_ours():
            with contextlib.suppress(OSError):
                os.write(self._descriptor, b".")

    def close(self) -> None:
        """Nothing more is written."""
        if self._is_ours():
            os.close(self._descriptor)

    def _is_ours(self) -> bool:
        try:
            return os.fstat(self._descriptor).st_ino == self._inode
        except OSError:
            return False
