"""Progress and log messages of servers: they reach the call that they are of, and no other."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from mcp.types import LoggingMessageNotificationParams

from agents.tools.mcp.calls.notifications import McpServerLog, OpenCall, OpenCalls
from agents.tools.mcp.connection import traffic
from agents.tools.mcp.pool import McpPool
from config.definitions.mcp.server import McpServerDefinition
from config.errors import ToolCutOff
from tests.agents.tools.mcp.conftest import Define, Run, said
from tests.agents.tools.mcp.connection.test_http import Served

TALKING = Path(__file__).with_name("talking_server.py")


class KeptCall(OpenCall):
    """Keeps what it gets."""

    def __init__(self) -> None:
        super().__init__(None)
        self.progress: list[Any] = []
        self.lines: list[Any] = []

    async def progressed(self, progress: float, total: float | None, message: str | None) -> None:
        self.progress.append((progress, total, message))

    def logged(self, level: str, text: str, logger: str) -> None:
        self.lines.append((level, text, logger))


def lines_with(under_way: int, server_level: str = "info", **message: Any) -> list[list[Any]]:
    """Return the lines of each of so many calls that are under way while a log message comes."""
    calls, open_calls = [KeptCall() for _ in range(under_way)], OpenCalls()

    async def hold(call: KeptCall, is_open: asyncio.Event, is_over: asyncio.Event) -> None:
        with open_calls.under_way(call):
            is_open.set()
            await is_over.wait()

    async def come() -> None:
        is_over = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for call in calls:
                is_open = asyncio.Event()
                group.create_task(hold(call, is_open, is_over))
                await is_open.wait()
            params = LoggingMessageNotificationParams(**{"level": "warning", "data": "said", **message})
            await McpServerLog("shop", server_level, open_calls).logged(params)
            is_over.set()

    asyncio.run(come())
    return [call.lines for call in calls]


def test_a_message_is_that_of_the_only_call(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")

    assert lines_with(1) == [[("warning", "said", "")]]
    assert lines_with(1, data={"rows": [1, None]}) == [[("warning", '{"rows":[1,null]}', "")]]
    assert lines_with(1, data=2**70, logger="sums") == [[("warning", str(2**70), "sums")]]
    assert len(lines_with(1, data=["x" * 4_000_000])[0][0][1]) == 16_000
    assert caplog.text == ""
    assert lines_with(2) == [[], []]  # it is not known whose it is, and one run's log is not for the other
    assert "the MCP server shop wrote: warning  said" in caplog.text


def test_messages_below_the_level_are_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")

    assert [lines_with(1, level, level=own) for level, own in (("off", "emergency"), ("error", "warning"))] == [
        [[]]
    ] * 2
    assert lines_with(0, "error") == []
    assert caplog.text == ""
    assert len(lines_with(1, "error", level="critical")[0]) == 1


# --- real servers -----------------------------------------------------------------------------------


def definition(mode: Literal["auto", "legacy"], port: int | None = None) -> McpServerDefinition:
    """Return the talking server's definition: on stdio, or at a port."""
    started: dict[str, Any] = {"command": sys.executable, "args": (str(TALKING), "stdio")}
    where: dict[str, Any] = started if port is None else {"url": f"http://127.0.0.1:{port}/mcp"}
    return McpServerDefinition(**{"name": "talking", "mode": mode, "file": "talking.yaml", **where})


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    served = Served("http", script=TALKING)
    yield served.port
    served.stop()


@pytest.mark.parity
@pytest.mark.timeout(60)
@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("where", ["stdio", "http"])
def test_each_call_gets_its_own(run: Run, port: int, mode: Any, where: str) -> None:
    server = definition(mode, port if where == "http" else None)
    calls = {tag: KeptCall() for tag in ("one", "two")}

    async def use(pool: McpPool) -> None:
        await pool.tools("t", server)
        if where == "stdio":  # there a log message says of no call
            for tag, call in calls.items():
                await pool.call("t", server, "report", {"tag": tag}, call=call)
        else:
            coroutines = (
                pool.call("t", server, "report", {"tag": tag, "pause_s": 0.05}, call=calls[tag]) for tag in calls
            )
            await asyncio.gather(*coroutines)

    run(use)

    for tag, call in calls.items():
        assert call.progress == [(float(n), 3.0, f"{tag} {n}") for n in (1, 2, 3)]
        assert call.lines == [("info", f"{tag} info", "books"), ("error", f"{tag} error", "books")]


# --- hostile servers --------------------------------------------------------------------------------


@pytest.mark.parity
@pytest.mark.timeout(60)
def test_what_comes_before_the_greeting_or_for_other_calls_reaches_no_call(run: Run, define: Define) -> None:
    call = KeptCall()

    async def use(pool: McpPool) -> Any:
        server = define("early", log_level="emergency")
        return await pool.call("t", server, "flood", {"count": 50, "token": "another's"}, call=call)

    assert said(run(use)) == "flooded"
    assert (call.progress, call.lines) == ([], [])


@pytest.mark.parity
@pytest.mark.timeout(60)
def test_a_server_that_floods_without_end_costs_its_session(
    run: Run, define: Define, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a tenth of the messages; ``tests/bench/mcp_faults.py`` sends all."""
    monkeypatch.setattr(traffic, "MAX_MESSAGES", 5000)
    call = KeptCall()

    async def use(pool: McpPool) -> Any:
        with pytest.raises(ToolCutOff, match="more than 5,000 messages"):
            await pool.call("t", define(), "flood", {"count": 10_000}, call=call)
        return await pool.call("t", define(), "echo", {"say": "again"})

    assert said(run(use)) == "again"
    assert len(call.progress) < 5000
