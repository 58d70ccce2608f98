"""A server of MCP that is killed again and again, at random moments, and what became of the calls."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import signal
from collections import Counter
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psutil

from agents.errors import McpServerDown
from agents.tools.mcp.pool import McpPool
from bus.loop import new_event_loop
from config.errors import ToolCutOff
from tests.bench.forked import resident
from tests.bench.hostile_servers import fake

AT_ONCE = 5
"""Calls that are under way when the server is killed."""
WORKS_S = 0.01
"""What a call takes; the server makes one after another."""
STARTS_S = 0.15
"""A server takes about as long until it has answered its first call."""
HUNG_S = 30.0
"""A call that has not ended by then hangs: a pause before the next start is shorter."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ends:
    """How the calls ended, and what was left."""

    calls: Counter[str]
    """``answered``, ``failed``, ``unknown``, ``hung``, or the name of another error."""
    processes_left: int
    descriptors_left: int
    grew_bytes: int
    """Of memory, since the warm-up."""


def kill_again_and_again(times: int, warm_up: int, chance: random.Random) -> Ends:
    """Kill the server so many times and return how the calls ended.

    ``warm_up``: kills before these, since some memory is used once and for all.
    """
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(_killed(times, warm_up, chance))


async def _killed(times: int, warm_up: int, chance: random.Random) -> Ends:
    for _ in range(warm_up):
        await _once(chance)
    gc.collect()
    before, descriptors = resident(), psutil.Process().num_fds()
    calls: Counter[str] = Counter()
    for _ in range(times):
        calls += await _once(chance)
    left = psutil.Process().children(recursive=True)
    gc.collect()
    return Ends(
        calls=calls,
        processes_left=len(left),
        descriptors_left=psutil.Process().num_fds() - descriptors,
        grew_bytes=resident() - before,
    )


async def _once(chance: random.Random) -> Counter[str]:
    """Kill a server that is starting, or that has calls, and return how they ended; then use it again."""
    pool, server = McpPool(), fake()
    calls: Counter[str] = Counter()
    try:
        is_started = chance.random() < 0.5
        if is_started:
            calls[await _end_of(pool.call("bench", server, "echo", {}))] += 1
        calling = [
            asyncio.create_task(_end_of(pool.call("bench", server, "slow", {"seconds": WORKS_S})))
            for _ in range(AT_ONCE)
        ]
        await asyncio.sleep(chance.uniform(0, WORKS_S * AT_ONCE if is_started else STARTS_S))
        _kill_servers()
        calls.update([*await asyncio.gather(*calling), await _end_of(pool.call("bench", server, "echo", {}))])
        return calls
    finally:
        await pool.close()


async def _end_of(call: Awaitable[Any]) -> str:
    try:
        async with asyncio.timeout(HUNG_S):
            await call
    except McpServerDown:
        return "failed"
    except ToolCutOff:
        return "unknown"
    except TimeoutError:
        return "hung"
    except Exception as error:
        return type(error).__name__
    return "answered"


def _kill_servers() -> None:
    """Kill what runs the server's file; the guards above stay, as they would."""
    name = fake().args[-1]
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error, ProcessLookupError):
            if process.cmdline()[-1:] == [name] and not process.children():
                os.kill(process.pid, signal.SIGKILL)
