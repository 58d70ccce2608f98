"""Ctrl-C while no command handles it: during imports, and after the command has ended.

A `KeyboardInterrupt` there would print a traceback of an unrelated module. `./callboard` blocks SIGINT until this
process starts; `end_at_once` unblocks it, which delivers a pending signal.
"""

from __future__ import annotations

import os
import signal
from types import FrameType

CANCELLED = 130


def end_at_once() -> None:
    """Make Ctrl-C end this process silently with status 130; a pending Ctrl-C does so now."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a background process keeps ignoring it
        signal.signal(signal.SIGINT, _end)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def leave_to_command() -> None:
    """Make Ctrl-C raise `KeyboardInterrupt` again, so that a command can handle it."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(_number: int, _frame: FrameType | None) -> None:
    os._exit(CANCELLED)
