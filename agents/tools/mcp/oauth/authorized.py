"""Puts an access token into each request of a session, and another one where the server refuses it."""

from __future__ import annotations

import httpx2

from agents.tools.mcp.oauth.tokens import TokenSource
from config.egress.target import parse_target


class Authorized(httpx2.AsyncBaseTransport):
    """Sends requests with tokens to the server's own origin, and to nowhere else.

    The transports of the SDK hold no lock around it: a call that takes long keeps no other one waiting.
    """

    def __init__(self, inner: httpx2.AsyncBaseTransport, tokens: TokenSource, url: str) -> None:
        self._inner, self._tokens, self._origin = inner, tokens, parse_target(url).origin

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return the answer, if need be to a second attempt.

        Raises:
            McpServerDown: there is no token; the request was not sent, or the server refused it.
            OtherLogin: the session is that of another login.
        """
        if parse_target(str(request.url)).origin != self._origin:
            return await self._inner.handle_async_request(request)
        token = await self._tokens.current()
        answer = await self._sent(request, token)
        if answer.status_code != 401:
            return answer
        await answer.aclose()
        return await self._sent(request, await self._tokens.renewed(token))

    async def _sent(self, request: httpx2.Request, token: str) -> httpx2.Response:
        request.headers["Authorization"] = f"Bearer {token}"
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()
