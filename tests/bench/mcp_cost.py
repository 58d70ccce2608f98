"""What a call costs an MCP client: a recorded run, beside a bare server of the SDK and beside `POST /execute`.

PYTHONPATH=. .venv/bin/python -m tests.bench.mcp_cost [--rounds 3] [--quick] [--json]
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from config.folders import ROOT
from tests.bench.command import Effort, run, say
from tests.bench.report import Figure, Report
from tests.journeys.up import Up

CALL = {"expression": "17 * 23"}
AGENT = "name: Tester\nmodel: demo/assistant\nsystem_prompt: You are a test.\ntools: [calculator]\n"
MODERN = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
"""What each request of this era has."""
BARE = """
from mcp.server import MCPServer
server = MCPServer("bare")
@server.tool()
def calculator(expression: str) -> str:
    "Calculate."
    return str(eval(expression, {}, {}))
server.run()
"""


def measure(effort: Effort) -> Report:
    """Return how long calls take, one after the other, over stdio and over HTTP."""
    with tempfile.TemporaryDirectory(prefix="cbbench") as folder:
        (Path(folder) / "agents").mkdir()
        (Path(folder) / "agents" / "tester.yaml").write_text(AGENT)
        ours = {
            "CALLBOARD_AGENTS_DIR": f"{folder}/agents",
            "CALLBOARD_STATE_DIR": f"{folder}/state",
            "CALLBOARD_DEFAULT_AGENT": "tester",
            "CALLBOARD_NO_CONFIG": "1",
        }
        figures = [asyncio.run(_stdio(effort, ours)), *_http(effort, Path(folder), ours)]
    return Report(name="mcp_cost", title="What a call costs an MCP client", figures=figures)


async def _stdio(effort: Effort, ours: dict[str, str]) -> Figure:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **ours}
    mine = StdioServerParameters(command=sys.executable, args=["-P", "-m", "cli", "mcp", "serve"], env=environment)
    bare = StdioServerParameters(command=sys.executable, args=["-c", BARE], env=environment)
    rounds, references = [], []
    async with Client(mine) as serve, Client(bare) as reference:
        for _ in range(effort.rounds):
            rounds.append(await _median_ms(effort, lambda: _called(serve)))
            references.append(await _median_ms(effort, lambda: reference.call_tool("calculator", dict(CALL))))
    say(f"stdio: {min(rounds):.1f} ms beside {min(references):.1f} ms")
    note = "median; the run is committed and executed in the server's process; beside: a server of the SDK alone"
    return Figure(name="a call on stdio", unit="ms", rounds=rounds, references=references, note=note)


def _http(effort: Effort, folder: Path, ours: dict[str, str]) -> list[Figure]:
    with Up(folder / "up", "--port", "0", "--workers", "1", **ours) as up:
        up.wait_for("Callboard is up at")
        up.ask("tester", "What is 2 + 3?")  # returns when the worker is there
        return [*asyncio.run(_over_http(effort, up.address)), asyncio.run(_beside_listeners(effort, up.address))]


async def _beside_listeners(effort: Effort, address: str) -> Figure:
    """Return how long others wait while many clients of one principal listen for changes."""
    number = effort.pick(300, 10)
    params = {"notifications": {"toolsListChanged": True, "resourcesListChanged": True}, "_meta": META}
    message = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": MODERN}
    headers |= {"Mcp-Method": "subscriptions/listen"}
    rounds, references = [], []
    limits = httpx2.Limits(max_connections=None)
    async with httpx2.AsyncClient(timeout=30, base_url=address, limits=limits) as plain:
        for _ in range(effort.rounds):
            references.append(await _p95_ms(effort, lambda: plain.get("/v1/agents")))
            async with AsyncExitStack() as streams:
                for _ in range(number):
                    opening = plain.stream("POST", "/mcp", json=message, headers=headers)
                    assert (await streams.enter_async_context(opening)).is_success
                rounds.append(await _p95_ms(effort, lambda: plain.get("/v1/agents")))
    note = f"p95 of GET /v1/agents while {number} clients of one principal listen; beside: while none does"
    return Figure(name="others beside listeners", unit="ms", rounds=rounds, references=references, note=note)


async def _over_http(effort: Effort, address: str) -> list[Figure]:
    calls, executed, lists, agents = [list[float]() for _ in range(4)]
    body = {"tool_name": "calculator", "arguments": CALL}
    async with (
        httpx2.AsyncClient(timeout=30, base_url=address) as plain,
        Client(streamable_http_client(f"{address}/mcp"), mode=MODERN, cache=None) as client,
    ):

        async def execute() -> None:
            assert (await plain.post("/execute", json=body)).json()["output"] == "391"

        for _ in range(effort.rounds):
            calls.append(await _median_ms(effort, lambda: _called(client)))
            executed.append(await _median_ms(effort, execute))
            lists.append(await _median_ms(effort, client.list_tools))
            agents.append(await _median_ms(effort, lambda: plain.get("/v1/agents")))
    say(f"HTTP: {min(calls):.1f} ms beside {min(executed):.1f} ms")
    note = "median; a worker executes the run; beside: POST /execute of the same tool"
    return [
        Figure(name="a call over HTTP", unit="ms", rounds=calls, references=executed, note=note),
        Figure(name="a list of tools", unit="ms", rounds=lists, references=agents, note="beside: GET /v1/agents"),
    ]


async def _called(client: Client) -> None:
    structured_content: Any = (await client.call_tool("calculator", dict(CALL))).structured_content
    assert structured_content["output"] == "391"


async def _median_ms(effort: Effort, work: Callable[[], Awaitable[object]]) -> float:
    return statistics.median(await _taken_ms(effort, work))


async def _p95_ms(effort: Effort, work: Callable[[], Awaitable[object]]) -> float:
    return statistics.quantiles(await _taken_ms(effort, work), n=20)[-1]


async def _taken_ms(effort: Effort, work: Callable[[], Awaitable[object]]) -> list[float]:
    taken = []
    for _ in range(effort.pick(200, 5)):
        began = time.perf_counter()
        await work()
        taken.append((time.perf_counter() - began) * 1000)
    return taken


if __name__ == "__main__":
    run(measure, __doc__)
