"""A program with the client of the official SDK before its second version; as ``fastmcp_program.py``."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import asynccontextmanager
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client  # type: ignore[attr-defined]  # of the older SDK
from mcp.types import ElicitResult

messages: list[str | None] = []


async def note(progress: float, total: float | None, message: str | None) -> None:
    messages.append(message)


async def answer(context: Any, params: Any) -> ElicitResult:
    return ElicitResult(action="accept", content={"name": "Ann"})


@asynccontextmanager
async def streams(where: dict[str, Any]) -> Any:
    if "url" in where:
        async with streamablehttp_client(where["url"], headers={"Authorization": f"Bearer {where['key']}"}) as opened:
            yield opened[:2]
    else:
        async with stdio_client(StdioServerParameters(**where)) as opened:
            yield opened


async def main(where: dict[str, Any]) -> dict[str, Any]:
    async with streams(where) as (read, write), ClientSession(read, write, elicitation_callback=answer) as session:
        await session.initialize()
        report: dict[str, Any] = {"tools": [tool.name for tool in (await session.list_tools()).tools]}
        for name in (
            "test_simple_text",
            "test_tool_with_progress",
            "test_error_handling",
            "test_streaming_elicitation",
        ):
            result: Any = await session.call_tool(name, {}, progress_callback=note)
            report[name] = {"is_error": result.isError, "text": result.content[0].text, **result.structuredContent}
        resources = [resource.uri for resource in (await session.list_resources()).resources]
        answered: Any = await session.read_resource(resources[0])
        report["resource"] = json.loads(answered.contents[0].text)["run_id"]
        return {**report, "said": messages}


print(json.dumps(asyncio.run(main(json.loads(sys.argv[1])))))
