"""Waits on this machine until a person's browser comes back from the authorization server (RFC 8252, section 7.3)."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import TracebackType
from urllib.parse import parse_qs, urlsplit

from mcp.shared.auth import AuthorizationCodeResult

from agents.tool_errors import McpServerDown
from config.text.visible import visible

MAX_HEAD = 16 * 1024
"""Bytes of a request that are read."""
HEAD_S = 10.0
"""Seconds that a request may take to arrive."""
_PAGE = """HTTP/1.1 {status}\r
Content-Type: text/html; charset=utf-8\r
Content-Security-Policy: default-src 'none'\r
Cache-Control: no-store\r
Connection: close\r
\r
<!doctype html><title>Callboard</title><p>{text}"""


class BrowserReturn:
    """A listener on the loopback address; entered, it has a port, and waits for one answer."""

    def __init__(self, port: int = 0) -> None:
        self._wanted = port
        self._state: str | None = None
        self._answer: asyncio.Future[AuthorizationCodeResult] = asyncio.get_running_loop().create_future()
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def __aenter__(self) -> BrowserReturn:
        """Listen.

        Raises:
            OSError: the port is in use.
        """
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._wanted, limit=MAX_HEAD)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()

    def expect(self, authorization_url: str) -> None:
        """Take the answer to this request alone: any page in the browser can send others."""
        self._state = parse_qs(urlsplit(authorization_url).query).get("state", [None])[-1]

    async def answer(self) -> AuthorizationCodeResult:
        """Return the code, once the browser brings it.

        Raises:
            McpServerDown: the authorization server says that it gives none.
        """
        return await self._answer

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            async with asyncio.timeout(HEAD_S):
                head = await reader.readuntil(b"\r\n\r\n")
            status, text = self._taken(head)
            writer.write(_PAGE.format(status=status, text=text).encode())
            await writer.drain()
        writer.close()

    def _taken(self, head: bytes) -> tuple[str, str]:
        """Return the status and the text of the page that the browser shows."""
        method, target, _ = head.split(b"\r\n", 1)[0].decode("ascii", "replace").split(" ", 2)
        parts = urlsplit(target)
        if method != "GET" or parts.path != "/callback":
            return "404 Not Found", "There is nothing here."
        said = {name: values[-1] for name, values in parse_qs(parts.query, max_num_fields=50).items()}
        if self._state is None or said.get("state") != self._state or self._answer.done():
            return "400 Bad Request", "This is not the answer to the login that Callboard waits for."
        if "error" in said:
            reason = visible(f"{said['error']} {said.get('error_description', '')}".strip()[:500])
            self._answer.set_exception(McpServerDown(f"the authorization server refused the login: {reason}."))
            return "200 OK", "The authorization server refused the login. The terminal says more."
        self._answer.set_result(
            AuthorizationCodeResult(code=said.get("code", ""), state=said["state"], iss=said.get("iss"))
        )
        return "200 OK", "The login is on its way to Callboard. You can close this page."
