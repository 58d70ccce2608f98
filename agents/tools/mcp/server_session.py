"""One session with an MCP server: a process or a connection, which one task opens, keeps and closes.

The scopes of the SDK have to be left by the task that entered them, so a task of the session's own does both. A call is
a task beside it, and the session's end is the end of each call.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from contextvars import Context
from typing import Any, Protocol, TypeVar, cast

import anyio
from mcp import ClientSession, MCPError
from mcp.client._probe import negotiate_auto
from mcp.types import (
    CallToolResult,
    EmptyResult,
    InputRequiredResult,
    ListToolsResult,
    RequestParamsMeta,
    SetLevelRequest,
    SetLevelRequestParams,
    Tool,
    ToolListChangedNotification,
)
from pydantic import ValidationError

from agents.tool_errors import McpLoginNeeded, McpServerDown
from agents.tools.mcp.calls.notifications import OFF, OpenCall, OpenCalls
from agents.tools.mcp.catalogue.list_changes import ListedTools
from agents.tools.mcp.catalogue.pages import all_pages
from agents.tools.mcp.connection.faults import McpFault
from agents.tools.mcp.connection.http import HttpConnection
from agents.tools.mcp.connection.stdio import StdioConnection
from agents.tools.mcp.connection.traffic import Inbound, Outbound, Traffic
from agents.tools.mcp.oauth.tokens import OtherLogin, TokenSource
from agents.tools.mcp.outcomes import (
    CLOSED,
    NO_ACCESS_TOKEN,
    OTHER_LOGIN,
    SessionGone,
    call_end,
    is_of_login,
    session_end,
)
from agents.tools.mcp.sdk_logging import quieten
from agents.tools.mcp.sdk_session import SdkSession
from config.definitions.mcp_server import McpServerDefinition
from config.errors import ToolCutOff, ToolFailed

log = logging.getLogger(__name__)
T = TypeVar("T")

SILENT_S = 10.0
"""Seconds without any message of a server that was asked, after which a call that is given up retires the session."""
ACCOUNT_S = 0.5
"""Seconds that a call waits for the reason of the session's end."""
STRAGGLERS_S = 1.0
"""Seconds that calls may take to notice the session's end."""


class McpConnection(Protocol):
    """What carries a session's messages."""

    async def __aenter__(self) -> tuple[Inbound, Outbound]: ...
    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> bool | None: ...
    def account(self) -> str:
        """Return what is known of the end, as a part of a sentence."""

    @property
    def fault(self) -> McpFault | None:
        """What is wrong with a server that could not be used, where it is known."""

    @property
    def said(self) -> str:
        """The end of its standard error."""


class McpSession:
    """A session, from its first use to its end. To be used on one loop."""

    def __init__(
        self, server: McpServerDefinition, credentials: dict[str, str], tokens: TokenSource | None = None
    ) -> None:
        """``credentials``: the whole environment of a server on stdio, or the headers of one behind a URL."""
        self.server = server
        self.problem: str | None = None
        """Why it ended, as a part of a sentence; None while it lives, and where it was closed."""
        self.fault: McpFault | None = None
        """What is wrong with a server that could not be used, where it is known."""
        self.needs_login = False
        """Whether the server did not accept the credentials, the last time it was asked."""
        self.completed = 0
        """Requests that the server answered."""
        self._has_answered_call = self._has_cut_off = False
        self.used_s = time.monotonic()
        self._traffic = Traffic(server.max_bytes, on_end=self._note_end)
        self._tokens = tokens
        self._connection: McpConnection
        if server.command is not None:
            self._connection = StdioConnection(server, credentials, self._traffic)
        else:
            self._connection = HttpConnection(server, credentials, self._traffic, tokens)
        self._calls: set[asyncio.Task[Any]] = set()
        self._open_calls = OpenCalls()
        self._changed = asyncio.Event()
        self._opened: asyncio.Future[ClientSession] = asyncio.get_running_loop().create_future()
        self._tools = ListedTools()
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
    def was_of_use(self) -> bool:
        """Whether it answered a call; or it answered something else, and no call was under way at its end."""
        return self._has_answered_call or (self.completed > 0 and not self._has_cut_off)

    @property
    def said(self) -> str:
        """The end of the server's standard error."""
        return self._connection.said

    @property
    def listed(self) -> int | None:
        """The number of tools that the server listed last; None before it was asked."""
        return self._tools.count

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
            raise type(error)(str(error), **error.facts) from None  # each of the callers gets an error of its own

    async def call(
        self, name: str, arguments: dict[str, Any], meta: Mapping[str, str] | None = None, call: OpenCall | None = None
    ) -> CallToolResult:
        """Return what the server's tool answered, which may be that it failed; ``call`` gets what it sends meanwhile.

        A cancelled caller returns at once; the server gets a notice.

        Raises:
            McpServerDown: the server was not asked.
            ToolCutOff: it was asked, and no answer came.
            ToolFailed: it refused the call.
            OutputUnfit: its answer is none that the protocol knows.
            SessionGone: it did not know the session, and did not take the call.
        """
        found = await self.exchange(name, arguments, meta, call)
        if isinstance(found, InputRequiredResult):
            raise ToolFailed(f"the MCP server {self.server.name} asks for an input that it cannot get here.")
        return found

    async def exchange(
        self, name: str, arguments: dict[str, Any], meta: Mapping[str, str] | None = None, call: OpenCall | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Return what the server's tool answered, which may be that it wants to know something first.

        Raises:
            as ``call``.
        """
        own = cast("RequestParamsMeta | None", dict(meta) if meta else None)  # the SDK's type has its own members only
        one = call or OpenCall()

        async def send(session: ClientSession) -> CallToolResult | InputRequiredResult:
            with self._open_calls.under_way(one):
                return await session.call_tool(
                    name,
                    arguments,
                    progress_callback=one.progressed,
                    input_responses=one.responses,
                    request_state=one.state,
                    meta=own,
                    allow_input_required=True,
                )

        found = await self._request(send)
        self._has_answered_call = True
        return found

    async def tools(self) -> list[Tool]:
        """Return the tools that the server has now; asked again only where they may have changed.

        Raises:
            as ``call``.
        """
        return await self._tools.present(lambda: self._request(_all_tools))

    async def ask(self, send: Callable[[ClientSession], Awaitable[T]]) -> T:
        """Return what the server answers to other requests, which ``send`` makes.

        Raises:
            as ``call``.
        """
        found = await self._request(send)
        self._has_answered_call = True
        return found

    async def _request(self, send: Callable[[ClientSession], Awaitable[T]]) -> T:
        await self.opened()
        if not self.is_usable:
            raise SessionGone
        await self._require_token()
        session = self._opened.result()
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
            if self._traffic.silent_s >= SILENT_S:
                self.retire("it did not answer")
            raise
        except (MCPError, ValidationError) as error:
            raise await self._error(error) from error

    async def _require_token(self) -> None:
        """Return if a request has a token; over the older HTTP a request without one would end the others' too.

        Raises:
            McpLoginNeeded, McpServerDown: it has none.
            SessionGone: the session is that of another login.
        """
        try:
            if self._tokens is not None:
                await self._tokens.current()
        except OtherLogin:
            self.retire(OTHER_LOGIN)
            raise SessionGone from None
        except McpLoginNeeded:
            self.needs_login = True
            self.retire(NO_ACCESS_TOKEN)
            raise

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._calls.discard(task)
        self.used_s = time.monotonic()
        if not task.cancelled() and task.exception() is None:
            self.completed += 1
            self.needs_login = False
        else:
            self._has_cut_off |= self._traffic.has_ended
        self._changed.set()

    async def _error(self, error: MCPError | ValidationError) -> Exception:
        """Return what an error of the SDK means for the call."""
        end = call_end(error, self.server.name)
        self.needs_login |= end.needs_login
        if end.retired:
            self.retire(end.retired)
        return end.error or await self._cut_off(end.said)

    async def _cut_off(self, said: str) -> ToolCutOff:
        if not said and self._owner is not None:
            await asyncio.wait([self._owner], timeout=ACCOUNT_S)
        reason = self._traffic.problem or said or self.problem or "its connection ended"
        return ToolCutOff(f"the MCP server {self.server.name} was asked and did not answer: {reason}.")

    # --- the owner's ----------------------------------------------------------------------------------

    async def _own(self) -> None:
        """Open the session, keep it for as long as it is used, and close it."""
        quieten()
        failure: BaseException | None = None
        try:
            async with self._connection as (read, write):
                session = SdkSession(self.server, (read, write), self._open_calls, self._notified)
                async with session:
                    await self._greet(session)
                    self.used_s = time.monotonic()  # those who waited for it come now
                    following = asyncio.create_task(self._tools.follow(session), name=f"mcp changes {self.server.name}")
                    self._opened.set_result(session)
                    try:
                        await self._serve()
                    finally:
                        if following.cancel():
                            await asyncio.wait([following], timeout=STRAGGLERS_S)
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
            self._traffic.protocol = session.protocol_version or ""
            level, begun = self.server.log_level, session.initialize_result
            if level != OFF and begun is not None and begun.capabilities.logging is not None:
                with suppress(MCPError):  # then it sends messages of other levels too, which are passed over
                    await session.send_request(SetLevelRequest(params=SetLevelRequestParams(level=level)), EmptyResult)

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
            self._tools.changed()

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
            self.fault = self.fault or self._connection.fault
            self.needs_login |= self.fault is McpFault.NO_LOGIN
            level = logging.INFO if self.problem == CLOSED else logging.WARNING
            log.log(level, "the session with the MCP server %s ended: %s", self.server.name, self.problem)
        if not self._opened.done():
            problem = self.problem or CLOSED
            kind = McpLoginNeeded if is_of_login(failure) else McpServerDown
            text = f"the MCP server {self.server.name} cannot be used: {problem}. The call was not made."
            self._opened.set_exception(kind(text, fault=self.fault))

    def _reason(self, failure: BaseException | None) -> str:
        known = self._traffic.problem or self._connection.account()
        if known:
            return known
        end = session_end(failure, self.server.start_s)
        self.needs_login |= end.needs_login
        self.fault = end.fault
        return end.problem

    async def _end_calls(self) -> None:
        """Return when no call is under way: the SDK has ended them all, and what it left is cancelled."""
        if self._calls:
            await asyncio.wait(self._calls, timeout=STRAGGLERS_S)
        for task in list(self._calls):
            task.cancel()


async def _awaited(send: Callable[[ClientSession], Awaitable[T]], session: ClientSession) -> T:
    return await send(session)


async def _all_tools(session: ClientSession) -> list[Tool]:
    return await all_pages(session.list_tools, lambda page: cast(ListToolsResult, page).tools)
