"""The sessions of a process: one for each tenant, server and set of credentials, opened when it is first used.

A session belongs to the loop that opened it. A server that fails again and again is started ever less often, and the
calls meanwhile are refused at once.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from mcp import ClientSession
from mcp.types import CallToolResult, InputRequiredResult, Tool

from agents.errors import McpServerDown, OutputUnfit
from agents.tools.mcp.calls.notifications import OpenCall
from agents.tools.mcp.catalogue.listed import ServerTool, listed
from agents.tools.mcp.oauth.tokens import new_tokens
from agents.tools.mcp.outcomes import SessionGone
from agents.tools.mcp.server_session import McpSession
from agents.tools.mcp.server_states import McpServerState, McpState, states_source
from config.at_exit import at_exit
from config.definitions.mcp.server import McpServerDefinition
from config.errors import ToolCutOff, ToolFailed
from config.forks import after_fork, leave_to_parent
from config.ids import canonical_digest

T = TypeVar("T")

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 60.0
"""The pause before a server is started for the third time in a row without an answer, and the longest one."""
MAX_KEYS = 1000
"""Servers and credentials of which a process remembers how their sessions went."""
MAX_SESSIONS = 64
"""Sessions of a process; beyond it the one that is idle longest is closed."""
CLOSE_S = 5.0
"""Seconds that the end of a process waits for its sessions."""


class SessionKey(NamedTuple):
    """Whose session it is."""

    tenant: str
    server: str
    digest: str
    """Of the command, the arguments, the environment, the address and the credentials."""


@dataclass(kw_only=True, slots=True)
class _History:
    """The present session of a key, and how those before it went."""

    session: McpSession | None = None
    failures: int = 0
    """Sessions in a row that ended by themselves and were of no use."""
    not_before_s: float = 0.0
    problem: str = ""
    needs_login: bool = False

    def require_due(self, server: str) -> None:
        """Return if it is time for another session.

        Raises:
            McpServerDown: the last ones failed, and it is not.
        """
        left_s = self.not_before_s - time.monotonic()
        if left_s > 0:
            raise McpServerDown(
                f"the MCP server {server} cannot be used: {self.problem}. It is tried again in "
                f"{max(left_s, 0.1):.1f} seconds; the call was not made."
            )

    def note_end(self, session: McpSession) -> None:
        """Note how a session ended; after a second useless one in a row there is a pause, and it grows."""
        life = session.life
        self.session = None if self.session is session else self.session
        if life.problem is None or session.was_of_use:
            self.failures = 0
            return
        self.failures += 1
        self.problem, self.needs_login = life.problem, life.needs_login
        # whether there is a login is looked up in SQL, so nothing has to be spared
        is_pausing = self.failures > 1 and not (life.needs_login and session.server.oauth)
        pause_s = FIRST_PAUSE_S * 2 ** (self.failures - 2) if is_pausing else 0.0
        self.not_before_s = time.monotonic() + min(pause_s, LONGEST_PAUSE_S)

    def state(self) -> McpServerState:
        """Return how the server is for this key."""
        if self.session is None:
            state = McpState.NEEDS_LOGIN if self.needs_login else McpState.BACKING_OFF
            left_s = round(max(0.0, self.not_before_s - time.monotonic()), 1)
            return McpServerState(state=state, reason=self.problem, next_try_s=left_s)
        life = self.session.life
        if not life.protocol:
            return McpServerState(state=McpState.STARTING, reason=self.problem)
        if not life.is_usable:
            return McpServerState(state=McpState.IDLE)  # it is being closed
        state = McpState.NEEDS_LOGIN if life.needs_login else McpState.READY
        return McpServerState(state=state, sessions=1, tools=life.tools.count)


class McpPool:
    """The sessions of one loop."""

    def __init__(self) -> None:
        self._histories: dict[SessionKey, _History] = {}
        self._sessions: set[McpSession] = set()
        self._used: set[str] = set()
        """The names of the servers that had a session."""

    async def call(
        self,
        tenant: str,
        server: McpServerDefinition,
        name: str,
        arguments: dict[str, Any],
        meta: Mapping[str, str] | None = None,
        call: OpenCall | None = None,
    ) -> CallToolResult:
        """Return what the server's tool answered; ``meta`` goes with the call, which gets what the server sends.

        Raises:
            McpServerDown, ToolCutOff, ToolFailed, OutputUnfit: see ``McpSession.call``.
            SECRET_MISSING: a reference of the definition leads to nothing.
        """
        return await self._use(tenant, server, lambda session: session.call(name, arguments, meta, call))

    async def tools(self, tenant: str, server: McpServerDefinition) -> list[Tool]:
        """Return the tools that the server has now, also those that are not included.

        Raises:
            as ``call``.
        """
        return await self._use(tenant, server, lambda session: session.tools())

    async def exchange(
        self,
        tenant: str,
        server: McpServerDefinition,
        name: str,
        arguments: dict[str, Any],
        meta: Mapping[str, str],
        call: OpenCall,
    ) -> CallToolResult | InputRequiredResult:
        """Return what the server's tool answered, which may be that it wants to know something first.

        Raises:
            as ``call``.
        """
        return await self._use(tenant, server, lambda session: session.exchange(name, arguments, meta, call))

    async def ask(self, tenant: str, server: McpServerDefinition, send: Callable[[ClientSession], Awaitable[T]]) -> T:
        """Return what the server answers to other requests, which ``send`` makes; they may be sent twice.

        Raises:
            as ``call``.
        """
        return await self._use(tenant, server, lambda session: session.ask(send))

    async def listed_now(self, tenant: str, server: McpServerDefinition, name: str) -> ServerTool:
        """Return a tool as the server lists it now.

        Raises:
            ToolFailed: the server has no such tool any more.
            McpServerDown: it did not list its tools.
        """
        try:
            tools = await self.tools(tenant, server)
        except (OutputUnfit, ToolCutOff, ToolFailed) as error:  # of the list: the tool itself was not called
            raise McpServerDown(f"{error} That was its list of tools; the call was not made.") from error
        tool = listed([each for each in tools if each.name == name], server.name).get(name)
        if tool is None:
            raise ToolFailed(f"the MCP server {server.name} no longer has the tool {name}; it was not called.")
        return tool

    def states(self) -> dict[str, McpServerState]:
        """Return how each server is that was used, by name; of several sessions the one with the most urgent state."""
        states = {name: McpServerState(state=McpState.IDLE) for name in self._used}
        order = list(McpState)
        for key, history in self._histories.items():
            merged, own = states[key.server], history.state()
            most_urgent = min(merged, own, key=lambda state: order.index(state.state))
            tools = own.tools if merged.tools is None else merged.tools
            states[key.server] = replace(most_urgent, sessions=merged.sessions + own.sessions, tools=tools)
        return states

    async def close(self) -> None:
        """Close every session; calls that are under way are cut off."""
        await asyncio.gather(*(session.life.close(at_once=True) for session in list(self._sessions)))

    async def _use(self, tenant: str, server: McpServerDefinition, work: Callable[[McpSession], Awaitable[T]]) -> T:
        """Return what the session answers; another one is asked where the server did not know the first any more."""
        with suppress(SessionGone):
            return await work(self._session(tenant, server))
        try:
            return await work(self._session(tenant, server))
        except SessionGone:
            problem = f"the MCP server {server.name} was not asked: it ends each session at once."
            raise McpServerDown(problem) from None

    def _session(self, tenant: str, server: McpServerDefinition) -> McpSession:
        """Return the session, which may still be opening; of calls at once, the first one opens it.

        Raises:
            McpServerDown: it failed again and again, and it is not time for another attempt.
            SECRET_MISSING: a reference of the definition leads to nothing.
        """
        credentials = server.environment() if server.command is not None else server.filled_headers()
        secrets = {} if server.oauth is None else server.oauth.secret_values()
        key = SessionKey(tenant, server.name, _digest(server, {**credentials, **secrets}))
        self._forget_some()
        history = self._histories.setdefault(key, _History())
        if history.session is None or not history.session.life.is_usable:
            history.require_due(server.name)
            self._make_room()
            session = history.session = McpSession(server, credentials, new_tokens(tenant, server))
            self._used.add(server.name)
            self._sessions.add(session)
            session.life.start(on_end=lambda: self._ended(key, session))
        return history.session

    def _forget_some(self) -> None:
        if len(self._histories) > MAX_KEYS:
            self._histories = {key: each for key, each in self._histories.items() if each.session is not None}

    def _make_room(self) -> None:
        if len(self._sessions) < MAX_SESSIONS:
            return
        lives = [session.life for session in self._sessions]
        idle = [life for life in lives if life.is_usable and not life.is_busy]
        if not idle:
            raise McpServerDown(f"the process has {MAX_SESSIONS} sessions with MCP servers; the call was not made.")
        min(idle, key=lambda life: life.used_s).retire("others need its place")

    def _ended(self, key: SessionKey, session: McpSession) -> None:
        self._sessions.discard(session)
        history = self._histories.setdefault(key, _History())
        history.note_end(session)
        if history.session is None and not history.failures:
            del self._histories[key]


def _digest(server: McpServerDefinition, credentials: dict[str, str]) -> str:
    content = {"server": server.model_dump(mode="json"), "credentials": credentials}
    return canonical_digest(content)


_lock = threading.Lock()
_pools: WeakKeyDictionary[asyncio.AbstractEventLoop, McpPool] = WeakKeyDictionary()


@after_fork
def _renew() -> None:
    """Leave the parent's sessions alone: their loop is not here, and the parent still uses their pipes."""
    global _lock, _pools
    leave_to_parent(_pools)
    _lock, _pools = threading.Lock(), WeakKeyDictionary()


def mcp_pool() -> McpPool:
    """Return the pool of the running loop."""
    with _lock:
        return _pools.setdefault(asyncio.get_running_loop(), McpPool())


@states_source
def _used_servers() -> dict[str, McpServerState]:
    return mcp_pool().states()


@at_exit
def close_pools() -> None:
    """Close the sessions of the loops on other threads, before the process ends; waits ``CLOSE_S`` at most."""
    with _lock:
        pools = [(loop, pool) for loop, pool in _pools.items() if loop.is_running()]
    closing = [asyncio.run_coroutine_threadsafe(pool.close(), loop) for loop, pool in pools]
    until_s = time.monotonic() + CLOSE_S
    for future in closing:
        try:
            future.result(max(0.0, until_s - time.monotonic()))
        except Exception:  # the guards end what is left
            future.cancel()
