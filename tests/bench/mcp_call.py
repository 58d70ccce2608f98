"""What a call of an MCP server's tool costs on stdio, beside the SDK's own client on the same server in the same run.

    PYTHONPATH=. .venv/bin/python -m tests.bench.mcp_call [--rounds 3] [--quick] [--json]

The two clients take turns, each with a server of its own. The quick server answers by itself what the SDK's would parse
and validate first, so that next to all of the time is the client's. The process collects garbage as a worker does; with
Python's thresholds a full collection fell into the turns of the one client or of the other, by the number of objects
that each had made.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters

from agents.tools.mcp.pool import McpPool
from bus.gc_tuning import freeze_gc
from bus.loop import new_event_loop
from config.definitions.mcp.server import McpServerDefinition
from tests.bench.command import Effort, run, say
from tests.bench.report import Bar, Figure, Report

BAR = 1.5
MIB = 1024 * 1024
AT_ONCE = 200
TURNS = 10
"""Turns of each client in a round."""
SERVERS = Path(__file__).parents[1] / "agents" / "tools" / "mcp"
QUICK, SDKS = ("-I", str(SERVERS / "fake_server.py")), (str(SERVERS / "sdk_server.py"), "stdio")

Call = Callable[[], Awaitable[Any]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """Calls of one kind."""

    name: str
    server: tuple[str, ...]
    """Arguments of the interpreter that runs the server."""
    tool: str
    arguments: dict[str, Any]
    number: int
    """Calls in a turn."""
    at_once: bool = False


LOADS = (
    Load(name="one call after another", server=QUICK, tool="echo", arguments={"say": "x" * 100}, number=50),
    Load(name="the same, of the SDK's server", server=SDKS, tool="add", arguments={"a": 1, "b": 2}, number=20),
    Load(name="a call whose result has 1 MiB", server=QUICK, tool="echo", arguments={"say": "x" * MIB}, number=2),
    Load(
        name=f"each of {AT_ONCE} calls at once",
        server=QUICK,
        tool="echo",
        arguments={"say": "x" * 100},
        number=AT_ONCE,
        at_once=True,
    ),
)


def measure(effort: Effort) -> Report:
    """Return the time of a call of each load, and how many of those at once were answered."""
    figures: list[Figure] = []
    for load in LOADS:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            figure, answered = runner.run(_compared(load, effort))
        say(f"{load.name}: {figure.value:.2f} ms beside {figure.reference:.2f} ms")
        figures.append(figure)
        if load.at_once:
            bar = Bar(compares="figure", limit=AT_ONCE, at_least=True)
            figures.append(Figure(name=f"answered of {AT_ONCE} calls at once", unit="", rounds=answered, bar=bar))
    return Report(name="mcp_call", title="What a call over MCP on stdio costs", figures=figures)


async def _compared(load: Load, effort: Effort) -> tuple[Figure, list[float]]:
    """Return the figure, and how many calls of each round's worst turn were answered."""
    file = load.server[-1] if load.server is QUICK else load.server[0]
    definition = McpServerDefinition(name="bench", command=sys.executable, args=load.server, file=file)
    pool = McpPool()
    rounds, references, answered = [], [], []
    async with Client(StdioServerParameters(command=sys.executable, args=list(load.server))) as client:

        async def ours() -> Any:
            return await pool.call("bench", definition, load.tool, load.arguments)

        async def theirs() -> Any:
            return await client.call_tool(load.tool, load.arguments)

        try:
            for side in (ours, theirs):
                await _turn(side, load)  # which also opens the session
            freeze_gc()  # as a worker does
            for _ in range(effort.rounds):
                turns = [(await _turn(ours, load), await _turn(theirs, load)) for _ in range(effort.pick(TURNS, 1))]
                rounds.append(sum(mine for (mine, _), _ in turns) / len(turns) * 1000)
                references.append(sum(its for _, (its, _) in turns) / len(turns) * 1000)
                answered.append(float(min(count for (_, count), _ in turns)))
        finally:
            await pool.close()
    bar = Bar(compares="ratio", limit=BAR)
    note = "beside: the SDK's client"
    return Figure(name=load.name, unit="ms", rounds=rounds, references=references, bar=bar, note=note), answered


async def _turn(call: Call, load: Load) -> tuple[float, int]:
    """Return the seconds of one call, and how many were answered."""
    began = time.perf_counter()
    if load.at_once:
        results = await asyncio.gather(*(call() for _ in range(load.number)), return_exceptions=True)
    else:
        results = [await call() for _ in range(load.number)]
    spent = time.perf_counter() - began
    return spent / load.number, sum(1 for result in results if not getattr(result, "is_error", True))


if __name__ == "__main__":
    run(measure, __doc__)
