"""One session with an MCP server: a process or a connection, which one task opens, keeps and closes.

The scopes of the SDK have to be left by the task that entered them, so a task of the session's own does both. A call is
a task beside it, and the session's end is the end of each call.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from contextvars import Context
from typing import Any, Protocol, TypeVar, cast

import anyio
import httpx2
from mcp import ClientSession, MCPError
from mcp.client._probe import negotiate_auto
from mcp.types import (
    CONNECTION_CLOSED,
    INVALID_REQUEST,
    PARSE_ERROR,
    REQUEST_TIMEOUT,
    CallToolResult,
    Implementation,
    InputRequiredResult,
    PaginatedRequestParams,
    RequestParamsMeta,
    Tool,
    ToolListChangedNotification,
)
from pydantic import ValidationError

from agents.tool_errors import McpServerDown, OutputUnfit
from agents.tools.mcp.http import CUT_OFF, NOT_SENT, HttpConnection
from agents.tools.mcp.quiet import quieten
from agents.tools.mcp.stdio import StdioConnection
from agents.tools.mcp.traffic import Inbound, Outbound, Traffic
from config.definitions.mcp_server import McpServerDefinition
from config.errors import ModelVisible, ToolCutOff, ToolFailed
from config.project import own_version
from config.redaction import redact_start
from config.visible import visible

log = logging.getLogger(__name__)
T = TypeVar("T")

SILENT_S = 10.0
"""Seconds without any message of the server, after which a call that is given up retires the session."""
ACCOUNT_S = 0.5
"""Seconds that a call waits for the reason of the session's end."""
STRAGGLERS_S = 1.0
"""Seconds that calls may take to notice the session's end."""
MAX_PAGES, MAX_TOOLS = 100, 2000
"""Pages and tools of a server's list that are read."""
MAX_MESSAGE = 1000
"""Characters of a server's own error text."""


CLOSED = "it was closed"


class McpConnection(Protocol):
    """What carries a session's messages."""

    async def __aenter__(self) -> tuple[Inbound, Outbound]: ...
    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> bool | None: ...
    def account(self) -> str:
        """Return what is known of the end, as a part of a sentence."""


class SessionGone(Exception):
    """The server no longer knows the session, and did not take the call; another session can."""


class _Session(ClientSession):
    """The SDK's session, without its check of results: the server's own schemas could keep the loop busy for ever."""

    async def validate_tool_result(self, name: str, result: CallToolResult) -> None:
        """Accept any result; the caller checks it with ``config.definitions.json_schema``."""


class McpSession:
    """A session, from its first use to its end. To be used on one loop."""

    def __init__(self, server: McpServerDefinition, credentials: dict[str, str]) -> None:
        """``credentials``: the whole environment of a server on stdio, or the headers of one behind a URL."""
        self.server = server
        self.problem: str | None = None
        """Why it ended, as a part of a sentence; None while it lives, and where it was closed."""
        self.completed = 0
        """Requests that the server answered."""
        self.used_s = time.monotonic()
        self._traffic = Traffic(server.max_bytes, on_end=self._note_end)
        kind: Callable[..., McpConnection] = StdioConnection if server.command is not None else HttpConnection
        self._connection = kind(server, credentials, self._traffic)
        self._calls: set[asyncio.Task[Any]] = set()
        self._changed = asyncio.Event()
        self._opened: asyncio.Future[ClientSession] = asyncio.get_running_loop().create_future()
        self._tools: list[Tool] | None = None
        self._is_leaving = self._is_retired = False
        self._owner: asyncio.Task[None] | None = None

    @property
    def is_usable(self) -> bool:
        """Whether it takes another call."""
        return not (self._is_leaving or self._is_retired or self._traffic.has_ended)

    @property
    def is_busy(self) -> bool:
        return bool(self._calls) or not self._opened.done()

    @property
    def protocol(self) -> str:
        """The protocol's version; empty before the session is open."""
        ready = self._opened.done() and not self._opened.cancelled() and self._opened.exception() is None
        return (self._opened.result().protocol_version or "") if ready else ""

    def start(self, on_end: Callable[[McpSession], None] = lambda session: None) -> None:
        """Open it in a task of its own; ``on_end`` is called once it has ended."""
        self._opened.add_done_callback(lambda done: done.cancelled() or done.exception())  # it may have no reader
        self._owner = asyncio.create_task(self._own(), name=f"mcp {self.server.name}", context=Context())
        self._owner.add_done_callback(lambda _: on_end(self))

    async def close(self, *, at_once: bool = False) -> None:
        """Take no more calls, and return when the last has ended; ``at_once`` ends those that are under way."""
        self._is_retired = True
        if at_once:
            self._traffic.end(CLOSED)
        self._changed.set()
        if self._owner is not None:
            await asyncio.wait([self._owner])

    # --- requests -------------------------------------------------------------------------------------

    async def opened(self) -> None:
        """Return once the session is open.

        Raises:
            McpServerDown: it could not be opened.
        """
        try:
            await asyncio.shield(self._opened)
        except McpServerDown as error:
            raise McpServerDown(str(error)) from None  # each of the callers gets an error of its own

    async def call(self, name: str, arguments: dict[str, Any], meta: Mapping[str, str] | None = None) -> CallToolResult:
        """Return what the server's tool answered, which may be that it failed.

        A cancelled caller returns at once; the server gets a notice.

        Raises:
            McpServerDown: the server was not asked.
            ToolCutOff: it was asked, and no answer came.
            ToolFailed: it refused the call.
            OutputUnfit: its answer is none that the protocol knows.
            SessionGone: it did not know the session, and did not take the call.
        """
        own = cast("RequestParamsMeta | None", dict(meta) if meta else None)  # the SDK's type has its own members only
        found = await self._request(
            lambda session: session.call_tool(name, arguments, meta=own, allow_input_required=True)
        )
        if isinstance(found, InputRequiredResult):
            raise ToolFailed(f"the MCP server {self.server.name} asks for an input that it cannot get here.")
        return found

    async def tools(self) -> list[Tool]:
        """Return the tools that the server has now; asked again only after it said that they changed.

        Raises:
            as ``call``.
        """
        known = self._tools
        if known is None:
            known = self._tools = await self._request(_all_tools)
        return known

    async def _request(self, send: Callable[[ClientSession], Awaitable[T]]) -> T:
        await self.opened()
        if not self.is_usable:
            raise SessionGone
        session, began_s, received = self._opened.result(), time.monotonic(), self._traffic.received
        task = asyncio.create_task(_awaited(send, session), name=f"mcp call {self.server.name}")
        self._calls.add(task)
        task.add_done_callback(self._done)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            own = asyncio.current_task()
            if task.cancelled() and own is not None and not own.cancelling():  # the session's end, not the caller's
                raise await self._cut_off("") from None
            task.cancel()
            if time.monotonic() - began_s >= SILENT_S and self._traffic.received == received:
                self.retire("it did not answer")
            raise
        except MCPError as error:
            raise await self._error(error) from error
        except ValidationError as error:
            place = ".".join(str(part) for part in error.errors(include_input=False, include_url=False)[0]["loc"])
            where = f", at {visible(place[:200])}" if place else ""
            problem = f"the MCP server {self.server.name} answered with what the protocol does not know{where}."
            raise OutputUnfit(problem) from error

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._calls.discard(task)
        self.used_s = time.monotonic()
        if not task.cancelled() and task.exception() is None:
            self.completed += 1
        self._changed.set()

    async def _error(self, error: MCPError) -> Exception:
        """Return what an error of the SDK means for the call."""
        text = visible(redact_start(error.message, MAX_MESSAGE))
        if error.code == NOT_SENT:
            return McpServerDown(f"the MCP server {self.server.name} was not asked: {text}.")
        if error.code == PARSE_ERROR:
            text = text.partition(": ")[2]
            return await self._cut_off("its answer is no message" if "validation error" in text else text)
        if error.code == REQUEST_TIMEOUT:  # the server's own: what it began may still be under way
            return ToolCutOff(f"the MCP server {self.server.name} gave the call up: {text}")
        if error.code in (CONNECTION_CLOSED, CUT_OFF):
            return await self._cut_off("" if error.message == "Connection closed" else text)
        if error.code == INVALID_REQUEST and error.message == "Session terminated":
            self.retire("it no longer knows the session")
            return SessionGone()
        return ToolFailed(f"the MCP server {self.server.name} refused the call: {text}", code=error.code)

    async def _cut_off(self, said: str) -> ModelVisible:
        if not said and self._owner is not None:
            await asyncio.wait([self._owner], timeout=ACCOUNT_S)
        reason = said or self.problem or self._traffic.problem or "its connection ended"
        return ToolCutOff(f"the MCP server {self.server.name} was asked and did not answer: {reason}.")

    # --- the owner's ----------------------------------------------------------------------------------

    async def _own(self) -> None:
        """Open the session, keep it for as long as it is used, and close it."""
        quieten()
        failure: BaseException | None = None
        try:
            async with self._connection as (read, write):
                session = _Session(read, write, client_info=_client_info(), message_handler=self._notified)
                async with session:
                    await self._greet(session)
                    self._opened.set_result(session)
                    await self._serve()
        except asyncio.CancelledError as error:
            failure = error
            raise
        except BaseException as error:  # also a group of the SDK's tasks
            failure = error
        finally:
            self._is_leaving = True
            self._report(failure)
            await self._end_calls()

    async def _greet(self, session: ClientSession) -> None:
        with anyio.fail_after(self.server.start_s):
            if self.server.mode == "auto":
                await negotiate_auto(session)
            else:
                await session.initialize()

    async def _serve(self) -> None:
        """Return when the connection has ended, or when no call needs it any more."""
        while not self._traffic.has_ended and (self._calls or not self._is_retired):
            left_s = None if self._calls else self.used_s + self.server.idle_s - time.monotonic()
            if left_s is not None and left_s <= 0:
                break
            self._changed.clear()
            with anyio.move_on_after(left_s):
                await self._changed.wait()
        self._is_leaving = True

    async def _notified(self, message: Any) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._tools = None

    def _note_end(self) -> None:
        self._changed.set()

    def retire(self, problem: str) -> None:
        """Give the session no more calls; it is closed once those under way have ended."""
        log.warning("the session with the MCP server %s is closed: %s", self.server.name, problem)
        self._is_retired = True
        self._changed.set()

    def _report(self, failure: BaseException | None) -> None:
        """Keep why the session ended, and say so to those who wait for it to open."""
        if failure is not None or self._traffic.has_ended:
            self.problem = self._reason(failure)
            level = logging.INFO if self.problem == CLOSED else logging.WARNING
            log.log(level, "the session with the MCP server %s ended: %s", self.server.name, self.problem)
        if not self._opened.done():
            problem = self.problem or CLOSED
            self._opened.set_exception(
                McpServerDown(f"the MCP server {self.server.name} cannot be used: {problem}. The call was not made.")
            )

    def _reason(self, failure: BaseException | None) -> str:
        known = self._traffic.problem or self._connection.account()
        if known:
            return known
        leaf = failure
        while isinstance(leaf, BaseExceptionGroup):
            leaf = leaf.exceptions[0]
        if isinstance(leaf, McpServerDown):
            return str(leaf).rstrip(".")
        if isinstance(leaf, asyncio.CancelledError):
            return CLOSED
        if isinstance(leaf, httpx2.HTTPStatusError):
            return f"it answered HTTP {leaf.response.status_code}"
        if isinstance(leaf, TimeoutError):
            return f"it was not ready within {self.server.start_s:g} seconds"
        if isinstance(leaf, MCPError):
            return visible(redact_start(leaf.message, MAX_MESSAGE))
        return "its connection ended" if leaf is None else f"{type(leaf).__name__} at its connection"

    async def _end_calls(self) -> None:
        """Return when no call is under way: the SDK has ended them all, and what it left is cancelled."""
        if self._calls:
            await asyncio.wait(self._calls, timeout=STRAGGLERS_S)
        for task in list(self._calls):
            task.cancel()


async def _awaited(send: Callable[[ClientSession], Awaitable[T]], session: ClientSession) -> T:
    return await send(session)


def _client_info() -> Implementation:
    return Implementation(name="callboard", version=own_version())


async def _all_tools(session: ClientSession) -> list[Tool]:
    found: list[Tool] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor) if cursor else None)
        found += page.tools
        cursor = page.next_cursor
        if not cursor or len(found) >= MAX_TOOLS:
            break
    return found[:MAX_TOOLS]
