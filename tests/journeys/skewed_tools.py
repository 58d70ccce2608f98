"""A tool that one worker's code has and another's has not, and a clock that is wrong; its environment says which.

The module is imported before a worker is ready. libfaketime would do it from outside, but breaks ``time.sleep``.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from agents.tools import tool

FOLDER, WITHOUT, AHEAD_S = "SKEW_FOLDER", "SKEW_WITHOUT", "SKEW_AHEAD_S"


def set_clock(ahead_s: int) -> None:
    """Have this process's wall clock run so far ahead; the monotonic ones cannot be set."""
    right_ns, right_s = time.time_ns, time.time
    time.time_ns = lambda: right_ns() + ahead_s * 10**9
    time.time = lambda: right_s() + ahead_s


if AHEAD_S in os.environ:
    set_clock(int(os.environ[AHEAD_S]))

if WITHOUT not in os.environ:

    @tool(effect="pure")
    def weigh(parcel: str) -> str:
        """Weigh a parcel; the scales have to be free."""
        folder = Path(os.environ[FOLDER])
        with (folder / "weighed").open("a") as ledger:
            ledger.write(f"{parcel} {os.getpid()}\n")
        while not (folder / "free").exists():
            time.sleep(0.02)  # another process says when
        return "2 kg"
