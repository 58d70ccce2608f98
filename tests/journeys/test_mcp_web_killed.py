"""The end of the web process that answers an MCP client's call: the call, sent again to another, has the first run."""

from __future__ import annotations

import asyncio
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from mcp import Client
from sqlalchemy import func, select

from config.database.tables import runs
from tests.app_harness import AppHarness
from tests.journeys.neighbour import neighbour
from tests.journeys.test_web_killed import WORDS, MortalWeb, two_webs
from tests.journeys.web_server import Web
from tests.model_server import Turn

pytestmark = [pytest.mark.journey, pytest.mark.timeout(180)]


def test_a_process_that_ends_refuses_an_answer_that_it_has_not_begun(brisk_harness: AppHarness) -> None:
    brisk_harness.agent()
    brisk_harness.model.respond = lambda body: Turn(text=WORDS, pace=20)
    about: Any = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": "tester", "arguments": {"input": "Hello"}, "_meta": about}
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": "tester",
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}

    with MortalWeb(brisk_harness, "first") as web, neighbour(brisk_harness), ThreadPoolExecutor() as threads:
        answering = threads.submit(web.ask, "/mcp", message, **headers)
        assert brisk_harness.model.wait_for_requests(1)
        web.process.send_signal(signal.SIGTERM)
        status, answer_headers, problem, _ = answering.result(30)

    assert (status, problem["code"], answer_headers["Retry-After"]) == (503, "overloaded", "2")
    assert answer_headers["X-Trace-Id"] == problem["trace_id"]
    assert "idempotency key" in problem["detail"]


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_a_call_is_found_again_by_its_key_and_by_its_run(mode: str, brisk_harness: AppHarness) -> None:
    brisk_harness.agent()
    brisk_harness.model.respond = lambda body: Turn(text=WORDS, pace=20)
    meta: Any = {"callboard/idempotency_key": "one"}

    async def call(web: Web, **options: Any) -> Any:
        async with Client(f"{web.address}/mcp", mode=mode) as client:
            reply = await client.call_tool("tester", {"input": "Hello"}, meta=meta, **options)
            again = await client.call_tool("run_status", {"run_id": reply.structured_content["run_id"]})
            return reply.structured_content, again.structured_content

    async def cut_off(web: Any) -> None:
        progressed = asyncio.Event()

        async def note(progress: float, total: float | None, message: str | None) -> None:
            del total
            if "word" in (message or ""):
                progressed.set()

        calling = asyncio.ensure_future(call(web, progress_callback=note))
        async with asyncio.timeout(60):
            await progressed.wait()
        web.kill()
        with pytest.raises(Exception, match=r"."):
            await asyncio.wait_for(calling, 30)

    with two_webs(brisk_harness) as (first, second), neighbour(brisk_harness):
        asyncio.run(cut_off(first))
        answer, again = asyncio.run(call(second))

    assert (answer["status"], answer["output"]) == ("succeeded", "".join(WORDS))
    assert again["output"] == answer["output"]
    with brisk_harness.runner.journal.database.read() as connection:
        assert connection.execute(select(func.count()).select_from(runs)).scalar_one() == 1
