"""The supervisor's end of a child's pulse (bus/pulse.py): a pipe that gets a byte a second for as long as it lives."""

from __future__ import annotations

import math
import os
import select
import threading
from collections.abc import Callable

from bus.pulse import PULSE_PIPE, TURN_S

START_S = 120.0
"""How long a child may take until its first sign of life; a cold disk and a large import take most of a minute."""


class PulsePipe:
    """One life of one child."""

    def __init__(self) -> None:
        self._reading, self.writing = os.pipe()
        self.environment = {PULSE_PIPE: f"{self.writing}:{os.fstat(self.writing).st_ino}"}
        self._over = threading.Event()

    def handed_over(self) -> None:
        """The child has the writing end now, alone: when it is gone, so is the pipe."""
        os.close(self.writing)

    def close(self) -> None:
        """There is no child to listen to."""
        os.close(self._reading)

    def end(self) -> None:
        """Let the listener return, soon."""
        self._over.set()

    def listen(self, silence_s: float, start_s: float, on_first: Callable[[], None]) -> bool:
        """Return True when no sign came for too long, False when the child ended.

        What came while nobody listened counts, and turns are counted, not seconds: a supervisor that was stopped, or
        a machine that slept, takes nobody for dead.
        """
        try:
            return self._listen(math.ceil(silence_s / TURN_S), math.ceil(start_s / TURN_S), on_first)
        finally:
            self.close()

    def _listen(self, silence: int, start: int, on_first: Callable[[], None]) -> bool:
        unheard, allowed = 0, start
        while not self._over.is_set() and unheard < allowed:
            if not select.select([self._reading], [], [], TURN_S)[0]:
                unheard += 1
                continue
            if not os.read(self._reading, 65536):
                return False
            if allowed != silence:
                on_first()
            unheard, allowed = 0, silence
        return not self._over.is_set()
