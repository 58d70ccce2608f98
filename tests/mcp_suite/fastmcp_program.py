"""A program with the client of fastmcp: uses Callboard's server, and prints what it found as JSON.

``python fastmcp_program.py '{"url": …, "key": …}'``, or with ``command``, ``args`` and ``env`` of a server on stdio.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport

messages: list[str | None] = []


async def note(progress: float, total: float | None, message: str | None) -> None:
    messages.append(message)


async def answer(message: str, kind: Any, params: Any, context: Any) -> ElicitResult:
    return ElicitResult(action="accept", content={"name": "Ann"})


def transport(where: dict[str, Any]) -> Any:
    if "url" in where:
        return StreamableHttpTransport(where["url"], headers={"Authorization": f"Bearer {where['key']}"})
    return StdioTransport(where["command"], where["args"], env=where["env"])


async def main(where: dict[str, Any]) -> dict[str, Any]:
    async with Client(transport(where), progress_handler=note, elicitation_handler=answer) as client:
        report: dict[str, Any] = {"tools": [tool.name for tool in await client.list_tools()]}
        for name in (
            "test_simple_text",
            "test_tool_with_progress",
            "test_error_handling",
            "test_streaming_elicitation",
        ):
            result = await client.call_tool(name, {}, raise_on_error=False)
            report[name] = {"is_error": result.is_error, "text": result.content[0].text, **result.structured_content}
        resources = [str(resource.uri) for resource in await client.list_resources()]
        report["resource"] = json.loads((await client.read_resource(resources[0]))[0].text)["run_id"]
        return {**report, "said": messages}


print(json.dumps(asyncio.run(main(json.loads(sys.argv[1])))))
