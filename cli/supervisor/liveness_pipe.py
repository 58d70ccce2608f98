"""The supervisor's end of a child's liveness pipe (bus/liveness.py), which gets a byte a second."""

from __future__ import annotations

import contextlib
import os
import select
from collections.abc import Callable

from bus.liveness import LIVENESS_PIPE, TURN_S

START_S = 120.0
"""How long a child may take until its first byte; a cold disk and large imports take most of a minute."""


class ChildPipe:
    """The pipe of one child process."""

    def __init__(self) -> None:
        self._read_end, self.write_end = os.pipe()
        self.environment = {LIVENESS_PIPE: f"{self.write_end}:{os.fstat(self.write_end).st_ino}"}

    def close_write_end(self) -> None:
        """Leave the write end to the child alone, so that its end closes the pipe."""
        os.close(self.write_end)

    def close(self) -> None:
        os.close(self._read_end)

    def listen(self, silence_s: float, start_s: float, on_first: Callable[[], None]) -> bool:
        """Return True if no byte came for too long, False if the child ended.

        It counts turns, not seconds, and buffered bytes count: after a supervisor was stopped, or the machine slept,
        no live child is taken for dead.
        """
        silent_for_s, allowed_s, is_first = 0.0, start_s, True
        with contextlib.closing(self):
            while silent_for_s < allowed_s:
                if not select.select([self._read_end], [], [], TURN_S)[0]:
                    silent_for_s += TURN_S
                    continue
                if not os.read(self._read_end, 65536):
                    return False
                if is_first:
                    on_first()
                silent_for_s, allowed_s, is_first = 0.0, silence_s, False
        return True
