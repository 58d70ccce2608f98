"""Tools whose calls are written to a file outside of what is tested; the first call of a file lasts until it is killed.

Each call of a file adds a line, on the disk before anything else happens, so no kill takes it back.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from agents.tools import current_call, tool

LAST_S = 600.0
"""As long as a call lasts that something else has to end."""


def arrived(ledger: str | Path) -> list[str]:
    """Return the idempotency keys of the calls that arrived, in order."""
    return Path(ledger).read_text().split() if Path(ledger).exists() else []


def _arrive(ledger: str) -> int:
    """Write the call down and return the how manieth it is."""
    file = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, f"{current_call().idempotency_key}\n".encode())
        os.fsync(file)
    finally:
        os.close(file)
    return len(arrived(ledger))


def _last(ledger: str) -> str:
    """Last until killed, or until a test ends it; a second call is quick."""
    until_s = time.monotonic() + LAST_S
    if _arrive(ledger) == 1:
        while time.monotonic() < until_s and not Path(f"{ledger}.over").exists():
            time.sleep(0.02)
    return "done"


@tool(effect="pure", timeout_s=LAST_S)
def pure(ledger: str) -> str:
    """Read something."""
    return _last(ledger)


@tool(effect="idempotent", timeout_s=LAST_S)
def idempotent(ledger: str) -> str:
    """Put something where it belongs."""
    return _last(ledger)


@tool(effect="keyed", timeout_s=LAST_S)
def keyed(ledger: str) -> str:
    """Send something, once a key."""
    return _last(ledger)


def was_arrived(key: str) -> str | None:
    """Return what the other side knows of a call."""
    books = Path(os.environ.get("OUTSIDE_BOOKS", "/nonexistent"))
    return "done before" if any(key in arrived(book) for book in books.glob("checkable*.ledger")) else None


@tool(effect="checkable", check=was_arrived, timeout_s=LAST_S)
def checkable(ledger: str) -> str:
    """Order something; the other side can be asked about it."""
    return _last(ledger)


@tool(effect="unsafe", timeout_s=LAST_S)
def unsafe(ledger: str) -> str:
    """Pay, each time it is called."""
    return _last(ledger)


@tool(effect="unsafe", timeout_s=LAST_S)
async def unsafe_async(ledger: str) -> str:
    """Pay, in a coroutine that can be cancelled."""
    _arrive(ledger)
    await asyncio.sleep(LAST_S)
    return "unreachable"


@tool(effect="idempotent", timeout_s=LAST_S)
def die(ledger: str, how: str) -> str:
    """End this process: once the file ``LEDGER.N`` allows the N-th call to.

    Args:
        ledger: the file the call is written to.
        how: ``exit``, or ``kill`` as the kernel does where memory is short.
    """
    number = _arrive(ledger)
    while not Path(f"{ledger}.{number}").exists():
        time.sleep(0.02)
    if how == "kill":
        os.kill(os.getpid(), 9)
    os._exit(3)


@tool(effect="pure")
def hoard(megabytes: int) -> str:
    """Ask for more memory than there may be."""
    return str(len(bytearray(megabytes * 1024 * 1024)))
