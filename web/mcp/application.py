"""The MCP server of a web process: the SDK's application for streamable HTTP, without sessions, on the process's loop.

Each request is answered by itself, so it does not matter which process gets it. Its thread waits a moment for the
answer. One that is complete by then is sent as every other answer is, and the connection stays open. Otherwise the loop
takes the socket over, as it does for streams, and the thread is free.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from http import HTTPStatus
from typing import Any

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from agents.runner import Runner
from config.errors import CallboardError, Internal
from config.tracing import Trace, traced
from web.feeds.viewers import Stream, Viewer
from web.mcp.results import MAX_ANSWER_BYTES
from web.mcp.server import build_server
from web.mcp.service import Acting, Context, Service
from web.problems import problem_of

log = logging.getLogger(__name__)

Message = MutableMapping[str, Any]
Application = Callable[
    [MutableMapping[str, Any], Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]],
    Awaitable[None],
]
FAILED = "something went wrong inside the server; its log has the details under this trace_id."
_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding"})


class AsgiExchange(Stream):
    """A request and its answer. Used on the loop, but for ``headers`` and ``body`` once it is over."""

    is_kept_alive = False  # the application keeps its streams alive itself

    def __init__(self, application: Application, scope: MutableMapping[str, Any], body: bytes) -> None:
        self._application = application
        self._scope = scope
        self._body: bytes | None = body
        self._gone = asyncio.Event()
        self._viewer: Viewer | None = None
        self._task: asyncio.Task[None] | None = None
        self._pieces: list[bytes] = []
        self._own_headers: list[tuple[str, str]] = []
        self.status = 500
        self.headers: list[tuple[str, str]] = []
        self.is_over = False

    async def begin(self, limit_s: float | None) -> bool:
        """Pass the request on, and return whether the whole answer is there within ``limit_s``."""
        self._task = asyncio.get_running_loop().create_task(self._run())
        await asyncio.wait([self._task], timeout=limit_s)
        return self.is_over

    @property
    def body(self) -> bytes:
        """The answer's bytes that were not sent yet."""
        return b"".join(self._pieces)

    def continue_with(self, headers: Iterable[tuple[str, str]]) -> None:
        """Send these headers besides the application's own, once there is a viewer."""
        self._own_headers = list(headers)

    # --- the viewer (Stream)

    def attach(self, viewer: Viewer) -> None:
        self._viewer = viewer
        if self.headers:
            viewer.write(self._head() + self.body)
            self._pieces.clear()
        if self.is_over:
            self._finish(viewer)

    def detach(self, viewer: Viewer) -> None:
        self._viewer = None
        self._gone.set()

    def refuse(self, viewer: Viewer, error: CallboardError) -> None:
        if self.headers:  # the answer has begun, so it is cut
            return
        with traced(viewer.trace_id):
            answer = problem_of(error)
        self.status, self.headers = answer.status_code, list(answer.headers)
        viewer.write(self._head() + answer.get_data())

    # --- the application

    async def _run(self) -> None:
        try:
            await self._application(self._scope, self._receive, self._send)
        except Exception as error:
            log.error("MCP request failed: %s", type(error).__name__, exc_info=error)
        finally:
            self.is_over = True
            if self._viewer is not None:
                self._finish(self._viewer)

    def _finish(self, viewer: Viewer) -> None:
        self.refuse(viewer, Internal(FAILED))  # unless the answer has begun
        viewer.finish()

    async def _receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            named = ((name.decode("latin-1"), value.decode("latin-1")) for name, value in message.get("headers", ()))
            self.headers = [(name, value) for name, value in named if name.lower() not in _HOP_BY_HOP]
            if self._viewer is not None:
                self._viewer.write(self._head())
            return
        piece = message.get("body", b"")
        if self._viewer is None:
            if not self._gone.is_set():
                self._pieces.append(piece)
        elif piece:
            self._viewer.write(piece)
            await self._viewer.room()

    def _head(self) -> bytes:
        names = {name.lower() for name, _ in self.headers}
        others = [(name, value) for name, value in self._own_headers if name.lower() not in names | _HOP_BY_HOP]
        lines = "".join(f"{name}: {value}\r\n" for name, value in [*self.headers, *others, ("Connection", "close")])
        return f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}\r\n{lines}\r\n".encode("latin-1")


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
        trace: Trace | None,
        limit_s: float | None,
    ) -> AsgiExchange:
        """Pass a request on, and return it when it is answered, at the latest after ``limit_s``."""
        async with self._opening:
            manager = self._manager or await self._open()
        begun = AsgiExchange(manager.handle_request, {**scope, ACTING: acting}, body)
        ids = (trace.trace_id, trace.parent_span) if trace is not None else (None, None)
        with traced(ids[0], parent_span=ids[1]):  # the task that it begins keeps it
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
