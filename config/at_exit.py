"""What is closed before the process ends, while its loop still runs.

A module that opens such things registers what closes them, so that the command line and the worker close them without
importing the module: one that was never imported has opened nothing.
"""

from __future__ import annotations

from collections.abc import Callable

_closers: list[Callable[[], None]] = []


def at_exit(close: Callable[[], None]) -> Callable[[], None]:
    """Have ``close`` called by ``close_all``; it may be called more than once, and in a forked child."""
    _closers.append(close)
    return close


def close_all() -> None:
    """Close what was opened, the last module's first."""
    for close in reversed(_closers):
        close()
