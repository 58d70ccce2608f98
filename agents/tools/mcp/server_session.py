"""The requests of one session with an MCP server: calls of its tools, its list of tools, and others.

Each request is a task beside the one that keeps the session open (``session_life.py``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, TypeVar, cast

from mcp import ClientSession, MCPError
from mcp.types import CallToolResult, InputRequiredResult, ListToolsResult, RequestParamsMeta, Tool
from pydantic import ValidationError

from agents.errors import McpLoginNeeded, McpServerDown
from agents.tools.mcp.calls.notifications import OpenCall
from agents.tools.mcp.catalogue.listed import ServerTool, sorted_out
from agents.tools.mcp.catalogue.lists import all_pages
from agents.tools.mcp.oauth.tokens import OtherLogin, TokenSource, new_tokens
from agents.tools.mcp.outcomes import NO_ACCESS_TOKEN, OTHER_LOGIN, SessionGone, call_end
from agents.tools.mcp.session_life import SessionLife
from config.definitions.mcp.server import McpServerDefinition
from config.errors import ToolCutOff, ToolFailed

T = TypeVar("T")

SILENT_S = 10.0
"""Seconds without any message of a server that was asked, after which a call that is given up retires the session."""
ACCOUNT_S = 0.5
"""Seconds that a call waits for the reason of the session's end."""


class McpSession:
    """A session as callers use it. To be used on one loop."""

    def __init__(
        self, server: McpServerDefinition, credentials: dict[str, str], tokens: TokenSource | None = None
    ) -> None:
        """``credentials``: the whole environment of a server on stdio, or the headers of one behind a URL."""
        self.server = server
        self.life = SessionLife(server, credentials, tokens)
        self._tokens = tokens
        self.answers = 0
        """Requests that the server answered."""
        self._has_answered_call = self._has_cut_off = False

    @property
    def was_of_use(self) -> bool:
        """Whether it answered a call; or it answered something else, and no call was under way at its end."""
        return self._has_answered_call or (self.answers > 0 and not self._has_cut_off)

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
        answer = await self.exchange(name, arguments, meta, call)
        if isinstance(answer, InputRequiredResult):
            raise ToolFailed(f"the MCP server {self.server.name} asks for an input that it cannot get here.")
        return answer

    async def exchange(
        self, name: str, arguments: dict[str, Any], meta: Mapping[str, str] | None = None, call: OpenCall | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Return what the server's tool answered, which may be that it wants to know something first.

        Raises:
            as ``call``.
        """
        members = cast("RequestParamsMeta | None", dict(meta) if meta else None)  # the SDK's type lists its own
        open_call = call or OpenCall()

        async def send(session: ClientSession) -> CallToolResult | InputRequiredResult:
            with self.life.open_calls.under_way(open_call):
                return await session.call_tool(
                    name,
                    arguments,
                    progress_callback=open_call.progressed,
                    input_responses=open_call.responses,
                    request_state=open_call.state,
                    meta=members,
                    allow_input_required=True,
                )

        answer = await self._request(send)
        self._has_answered_call = True
        return answer

    async def tools(self) -> list[Tool]:
        """Return the tools that the server has now; asked again only where they may have changed.

        Raises:
            as ``call``.
        """
        return await self.life.tools.present(lambda: self._request(_all_tools))

    async def ask(self, send: Callable[[ClientSession], Awaitable[T]]) -> T:
        """Return what the server answers to other requests, which ``send`` makes.

        Raises:
            as ``call``.
        """
        answer = await self._request(send)
        self._has_answered_call = True
        return answer

    async def _request(self, send: Callable[[ClientSession], Awaitable[T]]) -> T:
        session = await self.life.opened()
        if not self.life.is_usable:
            raise SessionGone
        await self._require_token()
        task = asyncio.create_task(_awaited(send, session), name=f"mcp call {self.server.name}")
        task.add_done_callback(self._count)
        self.life.keep_for(task)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if task.cancelled() and caller is not None and not caller.cancelling():  # the session's end
                raise await self._cut_off("") from None
            task.cancel()
            if self.life.traffic.silent_s >= SILENT_S:
                self.life.retire("it did not answer")
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
            self.life.retire(OTHER_LOGIN)
            raise SessionGone from None
        except McpLoginNeeded:
            self.life.needs_login = True
            self.life.retire(NO_ACCESS_TOKEN)
            raise

    def _count(self, task: asyncio.Task[Any]) -> None:
        """Note whether a request was answered, which says whether the session was of use."""
        if not task.cancelled() and task.exception() is None:
            self.answers += 1
            self.life.needs_login = False
        else:
            self._has_cut_off |= self.life.traffic.has_ended

    async def _error(self, error: MCPError | ValidationError) -> Exception:
        """Return what an error of the SDK means for the call."""
        end = call_end(error, self.server.name)
        self.life.needs_login |= end.needs_login
        if end.retired:
            self.life.retire(end.retired)
        return end.error or await self._cut_off(end.said)

    async def _cut_off(self, reason_text: str) -> ToolCutOff:
        if not reason_text:
            await self.life.ended(ACCOUNT_S)
        reason = self.life.traffic.problem or reason_text or self.life.problem or "its connection ended"
        return ToolCutOff(f"the MCP server {self.server.name} was asked and did not answer: {reason}.")


async def _awaited(send: Callable[[ClientSession], Awaitable[T]], session: ClientSession) -> T:
    return await send(session)


async def _all_tools(session: ClientSession) -> list[Tool]:
    return await all_pages(session.list_tools, lambda page: cast(ListToolsResult, page).tools)


# --- sessions that a caller opens and ends itself, under the names of the first design; runs use the process's pool


MCPServerDefinition = McpServerDefinition
"""The first design's name."""


class MCPClientManager:
    """One session for each server that it was asked to start. To be used on one loop."""

    def __init__(self, tenant: str) -> None:
        """``tenant``: whose logins are used at servers with OAuth."""
        self._tenant = tenant
        self._sessions: dict[str, McpSession] = {}

    async def start_server(self, definition: McpServerDefinition) -> McpSession:
        """Return an open session with the server, which a second call with its name returns again.

        Raises:
            McpServerDown: it cannot be used; ``facts["fault"]`` is the kind where it is known.
            SECRET_MISSING: a reference of the definition leads to nothing.
        """
        session = self._sessions.get(definition.name)
        if session is None or not session.life.is_usable:
            session = self._sessions[definition.name] = session_of(definition, self._tenant)
            session.life.start()
        await session.life.opened()
        return session

    async def cleanup(self) -> None:
        """End every session, and the servers that were started."""
        sessions, self._sessions = list(self._sessions.values()), {}
        for session in sessions:
            await session.life.close(at_once=True)


def session_of(definition: McpServerDefinition, tenant: str) -> McpSession:
    """Return a session that is not open.

    Raises:
        SECRET_MISSING: a reference of the definition leads to nothing.
    """
    is_local = definition.command is not None
    credentials = definition.environment() if is_local else definition.filled_headers()
    return McpSession(definition, credentials, new_tokens(tenant, definition))


async def mcp_list_tools(
    server_def: McpServerDefinition, include_tools: Collection[str] | None = None, *, tenant: str = "default"
) -> dict[str, dict[str, Any]]:
    """Return name, description and schemas of a server's usable tools, by name; the server is ended afterwards.

    ``include_tools`` are those to return; None: those that the definition includes.

    Raises:
        McpServerDown, ToolCutOff, ToolFailed, OutputUnfit: the server did not list them.
        SECRET_MISSING: a reference of the definition leads to nothing.
    """
    manager = MCPClientManager(tenant)
    try:
        tools, _ = await listing(await manager.start_server(server_def))
    finally:
        await manager.cleanup()
    names = {name for name in tools if server_def.includes(name)} if include_tools is None else set(include_tools)
    return {name: tool.content for name, tool in tools.items() if name in names}


async def listing(session: McpSession) -> tuple[dict[str, ServerTool], dict[str, str]]:
    """Return the usable tools of an open session's server by name, and of the others why they are none.

    Raises:
        McpServerDown, ToolCutOff, ToolFailed, OutputUnfit: the server did not list them.
    """
    try:
        return sorted_out(await session.tools())
    except SessionGone as error:
        problem = f"the MCP server {session.server.name} was not asked: it ends each session at once."
        raise McpServerDown(problem) from error
