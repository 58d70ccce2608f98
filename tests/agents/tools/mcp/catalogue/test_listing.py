"""Lists of tools: malformed tools among others, callers at once, and servers that do not list."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from mcp.types import Tool

from agents.errors import McpServerDown
from agents.tools.mcp.catalogue.listed import sorted_out
from agents.tools.mcp.catalogue.lists import MAX_ITEMS, ListedTools, with_stand_ins
from agents.tools.mcp.pool import McpPool
from config.errors import ToolCutOff
from tests.agents.tools.mcp.conftest import Define, Run, said

OBJECT = {"type": "object"}
MALFORMED = {
    "no schema": {"inputSchema": None},
    "a list as schema": {"inputSchema": []},
    "true as schema": {"inputSchema": True},
    "a schema of a text": {"inputSchema": {"type": "string"}},
    "a number as description": {"description": 5},
    "a text as hint": {"annotations": {"readOnlyHint": "by all means"}},
    "a list as output schema": {"outputSchema": []},
    "a list as meta": {"_meta": []},
    "a number as icon": {"icons": [{"src": 5}]},
}


@pytest.mark.parametrize("tool", MALFORMED.values(), ids=MALFORMED)
@pytest.mark.parametrize("protocol", ["2024-11-05", "2025-11-25", "2026-07-28"])
def test_a_malformed_tool_is_left_out_with_its_place(tool: dict[str, Any], protocol: str) -> None:
    (field,) = tool
    good = {"name": "good", "inputSchema": OBJECT}
    result: dict[str, Any] = {"tools": [good, {**good, "name": "bad", **tool}], "ttlMs": 0, "cacheScope": "private"}
    result["resultType"] = "complete"

    with_stand_ins(result, protocol)

    tools, refused = sorted_out([Tool.model_validate(entry, by_name=False) for entry in result["tools"]])
    assert list(tools) == ["good"]
    assert refused["bad"].startswith(f"its definition is none by the protocol, at {field}")


def test_what_is_no_tool_at_all_is_left_out() -> None:
    result: dict[str, Any] = {"tools": ["text", None, {"inputSchema": OBJECT}, {"name": "good", "inputSchema": OBJECT}]}

    with_stand_ins(result, "2025-11-25")

    assert [tool["name"] for tool in result["tools"]] == ["good"]


@pytest.mark.parity
def test_beside_a_malformed_tool_the_others_can_be_called(run: Run, define: Define) -> None:
    tools = json.dumps({"echo": {}, "bad": {"inputSchema": []}})

    async def use(pool: McpPool) -> tuple[list[str], str]:
        server = define(env={"FAKE_TOOLS": tools})
        by_name, _ = sorted_out(await pool.tools("t", server))
        await pool.listed_now("t", server, "echo")
        return list(by_name), said(await pool.call("t", server, "echo", {"say": "here"}))

    assert run(use) == (["echo"], "here")


def test_callers_at_once_share_what_one_reads() -> None:
    async def use() -> tuple[int, int]:
        listed, reads, gate = ListedTools(), [], asyncio.Event()

        async def ask() -> list[Tool]:
            reads.append(1)
            await gate.wait()
            return [Tool(name="echo", input_schema=OBJECT)]

        callers = [asyncio.create_task(listed.present(ask)) for _ in range(200)]
        await asyncio.sleep(0.01)
        callers.pop(0).cancel()  # the one that asks
        gate.set()
        answers = await asyncio.gather(*callers)
        return len(reads), len(answers)

    assert asyncio.run(use()) == (1, 199)


def test_after_the_last_caller_has_gone_nothing_is_read_and_the_next_one_asks_again() -> None:
    async def use() -> list[str]:
        listed, seen = ListedTools(), []

        async def ask() -> list[Tool]:
            seen.append("asked")
            try:
                await asyncio.sleep(0.01 if len(seen) > 1 else 60)
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise
            return []

        caller = asyncio.create_task(listed.present(ask))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        caller.cancel()
        await asyncio.gather(caller, return_exceptions=True)
        await listed.present(ask)
        return seen

    assert sorted(asyncio.run(use())) == ["asked", "asked", "cancelled"]


def test_a_change_while_a_list_is_read_has_it_read_again() -> None:
    async def use() -> list[int]:
        listed, answers = ListedTools(), iter([1, 2])

        async def ask() -> list[Tool]:
            number = next(answers)
            await asyncio.sleep(0.01)
            return [Tool(name="echo", input_schema=OBJECT)] * number

        first = asyncio.create_task(listed.present(ask))
        await asyncio.sleep(0)
        listed.changed()
        second = await listed.present(ask)
        return [len(await first), len(second), len(await listed.present(ask))]

    assert asyncio.run(use()) == [1, 2, 2]


def test_a_call_whose_server_does_not_list_its_tools_was_not_made(
    define: Define, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cut_off(self: McpPool, tenant: str, server: Any) -> list[Tool]:
        raise ToolCutOff("the MCP server fake was asked and did not answer: it ended with status 3.")

    monkeypatch.setattr(McpPool, "tools", cut_off)

    with pytest.raises(McpServerDown, match=r"status 3\. That was its list of tools; the call was not made"):
        asyncio.run(McpPool().listed_now("t", define(), "echo"))


def test_of_a_tool_with_very_many_faults_no_place_is_read() -> None:
    bad = {"name": "bad", "inputSchema": OBJECT, "icons": [{}] * 50_000}
    result: dict[str, Any] = {"tools": [bad, {"name": "good", "inputSchema": OBJECT}]}

    with_stand_ins(result, "2025-11-25")

    tools, refused = sorted_out([Tool.model_validate(entry, by_name=False) for entry in result["tools"]])
    assert list(tools) == ["good"]
    assert refused == {"bad": "its definition is none by the protocol"}


def test_no_more_tools_are_judged_than_are_read() -> None:
    result: dict[str, Any] = {"tools": [{}] * MAX_ITEMS + [{"name": "late", "inputSchema": OBJECT}]}

    with_stand_ins(result, "2025-11-25")

    assert result["tools"] == []
