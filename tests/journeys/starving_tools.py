"""Tools that should not be written like this: they take the event loop, or the interpreter, from all others."""

from __future__ import annotations

import ctypes
import time

from agents.tools import tool


@tool(effect="unsafe", timeout_s=120)
async def block_the_loop(seconds: float) -> str:
    """Sleep in a coroutine, so that the event loop does not turn."""
    time.sleep(seconds)
    return "done"


@tool(effect="unsafe", timeout_s=120)
def hold_the_interpreter(seconds: float) -> str:
    """Sleep in C code that keeps the interpreter's lock, as a long garbage collection does."""
    ctypes.PyDLL(None).usleep(int(seconds * 1e6))
    return "done"
