"""A server that is reached by HTTP: the SDK's transports over a client that bounds what the server may send."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from types import TracebackType

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from agents.tool_errors import McpLoginNeeded, McpServerDown
from agents.tools.mcp.connection.faults import McpFault, of_connecting, of_status
from agents.tools.mcp.connection.traffic import Inbound, Outbound, TooMuch, Traffic, watched
from agents.tools.mcp.connection.values import BodyValues, EventValues
from agents.tools.mcp.oauth.tokens import Authorized, OtherLogin, TokenSource
from config.definitions.mcp.server import McpServerDefinition
from agents.tool_errors import McpServerDown
from agents.tools.mcp.connection.bounded import BoundedTransport
from agents.tools.mcp.connection.faults import McpFault
from agents.tools.mcp.connection.traffic import Inbound, Outbound, Traffic, watched
from agents.tools.mcp.oauth.tokens import Authorized, TokenSource
from config.definitions.mcp_server import McpServerDefinition
from config.egress.errors import HostNotAllowed, UrlRefused
from config.egress.exchange import trusted
from config.egress.informational import bound_informational
from config.egress.operators import require_operators_url
from config.egress.policy import allowed_in
from config.settings import settings
from config.text.visible import visible

CONNECT_S = 10.0
MAX_CONNECTIONS = 256


class HttpConnection:
    """The connection to one server; entered, it is a pair of streams for a session."""

    def __init__(
        self,
        server: McpServerDefinition,
        headers: Mapping[str, str],
        traffic: Traffic,
        tokens: TokenSource | None = None,
    ) -> None:
        self._server, self._headers, self._traffic, self._tokens = server, headers, traffic, tokens
        self._opened = AsyncExitStack()
        self._refused: tuple[McpFault, str] | None = None

    async def __aenter__(self) -> tuple[Inbound, Outbound]:
        url = self._server.url or ""
        try:
            await require_operators_url(url, allowed_in(settings().http_allowed_hosts))
        except (UrlRefused, HostNotAllowed) as error:
            raise McpServerDown(str(error)) from error
        if self._tokens is not None:
            await self._tokens.current()  # says what is wrong before a session begins
        async with AsyncExitStack() as opened:
            if self._server.transport == "sse":
                # No scope of anyio: the transport opens some, and leaves them later.
                async with asyncio.timeout(self._server.start_s):
                    entering = sse_client(url, httpx_client_factory=self._client_of_sdk)
                    streams = await opened.enter_async_context(entering)
            else:
                client = await opened.enter_async_context(self._client())
                limit = self._server.max_bytes
                streams = await opened.enter_async_context(
                    streamable_http_client(url, http_client=client, max_sse_event_size=limit)
                )
            self._opened = opened.pop_all()
        return watched(streams[0], streams[1], self._traffic)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._opened.__aexit__(kind, error, trace)

    said = ""
    """The standard error of a server that is reached by HTTP is not known."""

    def account(self) -> str:
        """Return what was wrong with the answer to the last request, as a part of a sentence."""
        return self._refused[1] if self._refused is not None else ""

    @property
    def fault(self) -> McpFault | None:
        """What was wrong with the answer to the last request."""
        return self._refused[0] if self._refused is not None else None

    def _note(self, refused: tuple[McpFault, str] | None) -> None:
        self._refused = refused

    def _client(self) -> httpx2.AsyncClient:
        bound_informational()
        is_sse = self._server.transport == "sse"
        limits = httpx2.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=20)
        inner = httpx2.AsyncHTTPTransport(verify=trusted(), trust_env=False, http2=False, limits=limits)
        allowed = inner if self._tokens is None else Authorized(inner, self._tokens, self._server.url or "")
        return httpx2.AsyncClient(
            transport=BoundedTransport(allowed, self._traffic, ends_session=is_sse, note=self._note),
            headers={**self._headers, "Accept-Encoding": "identity", "User-Agent": "Callboard"},
            timeout=httpx2.Timeout(CONNECT_S, read=None, pool=None),  # a call's own time ends it
            trust_env=False,
        )

    def _client_of_sdk(
        self,
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        return self._client()
