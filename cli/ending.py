"""The end of a command's process: behind all exit handlers, without Python's teardown of the heap.

The teardown takes 0.07 s of CPU after most commands, 0.3 s with LiteLLM loaded. The operating system frees the
memory at once.
"""

from __future__ import annotations

import atexit
import os
import sys


class QuickEnd:
    """Ends the process as the last exit handler, once there is a status; so it has to be the first to be registered."""

    def __init__(self) -> None:
        self.status: int | None = None
        atexit.register(self._end)

    def _end(self) -> None:
        if self.status is None:
            return
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except (OSError, ValueError, AttributeError):
            return  # Python's own end says what was not written, and has a status for it
        os._exit(self.status)
