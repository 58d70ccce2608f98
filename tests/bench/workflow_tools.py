"""Tools of the bench's workflows, called in its workers: they add, note in a file that they were called, or wait."""

from __future__ import annotations

import asyncio
import os

from agents.tools import tool

EFFECTS = "BENCH_EFFECTS"
"""The variable with the file in which ``note`` writes."""


@tool(effect="pure")
async def add_one(n: int) -> int:
    """Add one."""
    return n + 1


@tool(effect="idempotent")
async def note(n: int) -> int:
    """Write the number as a line, and return after a moment."""
    descriptor = os.open(os.environ[EFFECTS], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, f"{n}\n".encode())
    os.close(descriptor)
    await asyncio.sleep(0.002)
    return n


@tool(effect="pure")
async def ask_another(n: int) -> int:
    """Wait as for the answer of another system: 50 ms."""
    await asyncio.sleep(0.05)
    return n
