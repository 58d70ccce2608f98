"""The life of a session with an MCP server: one task opens it, keeps it while it is used, and closes it.

The scopes of the SDK have to be left by the task that entered them, so a task of the session's own does both. A call is
a task beside it, and the session's end is the end of each call.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from typing import Any, Protocol

import anyio
from mcp import ClientSession, MCPError
from mcp.client._probe import negotiate_auto
from mcp.types import EmptyResult, SetLevelRequest, SetLevelRequestParams, ToolListChangedNotification

from agents.errors import McpLoginNeeded, McpServerDown
from agents.tools.mcp.calls.notifications import OFF, OpenCalls, SdkSession
from agents.tools.mcp.catalogue.lists import ListedTools
from agents.tools.mcp.connection.faults import McpFault
from agents.tools.mcp.connection.http import HttpConnection
from agents.tools.mcp.connection.stdio import StdioConnection
from agents.tools.mcp.connection.traffic import Inbound, Outbound, Traffic
from agents.tools.mcp.oauth.tokens import TokenSource
from agents.tools.mcp.outcomes import CLOSED, is_of_login, session_end
from agents.tools.mcp.sdk_logging import limit_sdk_logging
from config.definitions.mcp.server import McpServerDefinition

log = logging.getLogger(__name__)

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


class SessionLife:
    """A session from its start to its end. To be used on one loop."""

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
        self.used_s = time.monotonic()
        self.traffic = Traffic(server.max_bytes, on_end=self._wake)
        self.open_calls = OpenCalls()
        self.tools = ListedTools()
        self._connection: McpConnection
        if server.command is not None:
            self._connection = StdioConnection(server, credentials, self.traffic)
        else:
            self._connection = HttpConnection(server, credentials, self.traffic, tokens)
        self._calls: set[asyncio.Task[Any]] = set()
        self._changed = asyncio.Event()
        self._opened: asyncio.Future[ClientSession] = asyncio.get_running_loop().create_future()
        self._is_leaving = self._is_retired = False
        self._owner: asyncio.Task[None] | None = None

    @property
    def is_usable(self) -> bool:
        """Whether it takes another call."""
        return not (self._is_leaving or self._is_retired or self.traffic.has_ended)

    @property
    def is_busy(self) -> bool:
        return bool(self._calls) or not self._opened.done()

    @property
    def said(self) -> str:
        """The end of the server's standard error."""
        return self._connection.said

    @property
    def protocol(self) -> str:
        """The protocol's version; empty before the session is open."""
        is_open = self._opened.done() and not self._opened.cancelled() and self._opened.exception() is None
        return (self._opened.result().protocol_version or "") if is_open else ""

    def start(self, on_end: Callable[[], None] = lambda: None) -> None:
        """Open it in a task of its own; ``on_end`` is called once it has ended."""
        self._opened.add_done_callback(lambda done: done.cancelled() or done.exception())  # it may have no reader
        self._owner = asyncio.create_task(self._own(), name=f"mcp {self.server.name}", context=Context())
        self._owner.add_done_callback(lambda _: on_end())

    async def opened(self) -> ClientSession:
        """Return the SDK's session once it is open.

        Raises:
            McpServerDown: it could not be opened.
        """
        try:
            return await asyncio.shield(self._opened)
        except McpServerDown as error:
            raise type(error)(str(error), **error.facts) from None  # each of the callers gets an error of its own

    def keep_for(self, call: asyncio.Task[Any]) -> None:
        """Keep the session until the call has ended; the session's end cancels the call."""
        self._calls.add(call)
        call.add_done_callback(self._call_ended)

    def retire(self, problem: str) -> None:
        """Give the session no more calls; it is closed once those under way have ended."""
        log.warning("the session with the MCP server %s is closed: %s", self.server.name, problem)
        self._is_retired = True
        self._wake()

    async def close(self, *, at_once: bool = False) -> None:
        """Take no more calls, and return when the last has ended; ``at_once`` ends those that are under way."""
        self._is_retired = True
        if at_once:
            self.traffic.end(CLOSED)
        self._wake()
        await self.ended()

    async def ended(self, timeout_s: float | None = None) -> None:
        """Return when the session has ended, or after ``timeout_s``."""
        if self._owner is not None:
            await asyncio.wait([self._owner], timeout=timeout_s)

    def _call_ended(self, call: asyncio.Task[Any]) -> None:
        self._calls.discard(call)
        self.used_s = time.monotonic()
        self._wake()

    def _wake(self) -> None:
        self._changed.set()

    # --- the owner's ----------------------------------------------------------------------------------

    async def _own(self) -> None:
        """Open the session, keep it for as long as it is used, and close it."""
        limit_sdk_logging()
        failure: BaseException | None = None
        try:
            async with self._connection as (read, write):
                session = SdkSession(self.server, (read, write), self.open_calls, self._notified)
                async with session:
                    await self._greet(session)
                    self.used_s = time.monotonic()  # those who waited for it come now
                    await self._keep(session)
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
            self.traffic.protocol = session.protocol_version or ""
            level, greeting = self.server.log_level, session.initialize_result
            if level != OFF and greeting is not None and greeting.capabilities.logging is not None:
                with suppress(MCPError):  # then it sends messages of other levels too, which are passed over
                    await session.send_request(SetLevelRequest(params=SetLevelRequestParams(level=level)), EmptyResult)

    async def _keep(self, session: ClientSession) -> None:
        """Hand the open session out, and return when it is no longer used."""
        following = asyncio.create_task(self.tools.follow(session), name=f"mcp changes {self.server.name}")
        self._opened.set_result(session)
        try:
            await self._serve()
        finally:
            if following.cancel():
                await asyncio.wait([following], timeout=STRAGGLERS_S)

    async def _serve(self) -> None:
        """Return when the connection has ended, or when no call needs it any more."""
        while not self.traffic.has_ended and (self._calls or not self._is_retired):
            left_s = None if self._calls else self.used_s + self.server.idle_s - time.monotonic()
            if left_s is not None and left_s <= 0:
                break
            self._changed.clear()
            with anyio.move_on_after(left_s):
                await self._changed.wait()
        self._is_leaving = True

    async def _notified(self, message: Any) -> None:
        if isinstance(message, ToolListChangedNotification):
            self.tools.changed()

    def _report(self, failure: BaseException | None) -> None:
        """Keep why the session ended, and say so to those who wait for it to open."""
        if failure is not None or self.traffic.has_ended:
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
        reason = self.traffic.problem or self._connection.account()
        if reason:
            return reason
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
