"""The MCP server of a web process: the SDK's application for streamable HTTP, without sessions, on the process's loop.

Each request is answered by itself, so it does not matter which process gets it.
"""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from agents.runner import Runner
from config.tracing import traced
from web.mcp.exchange import AsgiExchange
from web.mcp.results import MAX_ANSWER_BYTES
from web.mcp.server import build_server
from web.mcp.service import Acting, Context, Service

ACTING = "callboard.acting"
"""Where the scope of a request has its caller."""


class HttpServer:
    """Answers the requests of one process."""

    def __init__(self, runner: Runner) -> None:
        self._service = Service(
            runner=runner,
            caller=_caller,
            tools_of=runner.journal.stores.tools.listed,
            is_detached=lambda _: True,
            max_answer_bytes=MAX_ANSWER_BYTES,
        )
        self._manager: StreamableHTTPSessionManager | None = None
        self._opening = asyncio.Lock()
        self._serving: asyncio.Task[None] | None = None

    async def exchange(
        self,
        scope: MutableMapping[str, Any],
        body: bytes,
        acting: Acting,
        trace_id: str | None,
        limit_s: float | None,
    ) -> AsgiExchange:
        """Pass a request on, and return it when it is answered, at the latest after ``limit_s``."""
        async with self._opening:
            manager = self._manager or await self._open()
        begun = AsgiExchange(manager.handle_request, {**scope, ACTING: acting}, body)
        with traced(trace_id):  # the task that it begins keeps it
            await begun.begin(limit_s)
        return begun

    async def _open(self) -> StreamableHTTPSessionManager:
        server = await self._service.loop.wait(build_server, self._service)
        server.get_tool_input_schema = _no_headers
        manager = StreamableHTTPSessionManager(server, stateless=True)
        ready = asyncio.Event()
        self._serving = asyncio.get_running_loop().create_task(_serve(manager, ready))
        await ready.wait()
        self._manager = manager
        return manager


async def _serve(manager: StreamableHTTPSessionManager, ready: asyncio.Event) -> None:
    """Keep the manager open until the process ends."""
    async with manager.run():
        ready.set()
        await asyncio.Event().wait()


def _caller(context: Context) -> Acting:
    assert context.request is not None  # each comes over HTTP
    acting: Acting = context.request.scope[ACTING]
    return acting


def _no_headers(_tool: str) -> None:
    """Say that no argument of a tool is repeated in a header; otherwise the tools would be listed for each call."""
