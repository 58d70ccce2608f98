"""A person's login at a server: asks the server how, sends the browser, and stores what comes back.

This machine waits for the browser on a loopback address (RFC 8252, section 7.3).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.shared.auth import AuthorizationCodeResult

from agents.errors import McpServerDown
from agents.tools.mcp.oauth.account import OAuthAccount, bound_to, opened_login, place_of, sealed_login
from agents.tools.mcp.oauth.flow import OAuthFlow
from agents.tools.mcp.oauth.requests import OAuthAsker
from bus.journal.stores import McpLogins, SealedLogin
from bus.sealing import SealBroken, Sealer, SealKeyMissing
from config.definitions.mcp.server import McpServerDefinition
from config.egress.errors import HostNotAllowed, UrlRefused
from config.egress.target import parse_target
from config.ids import new_id
from config.text.visible import visible

_PLAIN = re.compile(r"[A-Za-z0-9._~:/?#\[\]@%!*+,=&-]+")
"""What an address may have that is given to the program that opens a browser: nothing that a shell reads as its own,
but for ``&``."""
_GREETING = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
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


async def log_in(
    server: McpServerDefinition, show: Callable[[str], None], *, port: int | None = None, timeout_s: float = 300.0
) -> OAuthAccount:
    """Return the account of the person who signs in at the address that ``show`` gets.

    Raises:
        McpServerDown: the server or its authorization server cannot be used, or refused; or it took too long.
    """
    assert server.oauth is not None
    asker = OAuthAsker(server)
    challenge = await _challenge(server, asker)
    try:
        async with BrowserReturn(server.oauth.redirect_port if port is None else port) as browser:

            async def redirect(url: str) -> None:
                _require_plain(url, asker, server.name)
                browser.expect(url)
                show(url)

            async with asyncio.timeout(timeout_s):
                return await OAuthFlow(server, asker).login(browser.port, redirect, browser.answer, challenge)
    except TimeoutError as error:
        raise McpServerDown(f"the login at {server.name} was not finished within {timeout_s:g} seconds.") from error
    except OSError as error:
        raise McpServerDown(f"this machine cannot wait for the browser: {error.strerror or error}.") from error


def keep_login(
    logins: McpLogins, sealer: Sealer, tenant: str, server: McpServerDefinition, account: OAuthAccount, *, by: str
) -> None:
    """Store the account, sealed, in place of the one before; workers use it from then on. ``by``: a principal."""
    fresh = SealedLogin(id=new_id("mlg"), bound_to=bound_to(server), version=0, key_name="", sealed="")
    sealed = sealed_login(account, sealer, place_of(tenant, server.name), fresh)
    logins.put(tenant, server.name, sealed, by=by, host=parse_target(server.url or "").host)


async def log_out(
    logins: McpLogins, sealer: Sealer, tenant: str, server: McpServerDefinition, *, by: str
) -> str | None:
    """Delete a login and have the authorization server revoke its tokens.

    Returns None where there was no login; otherwise what was done about the tokens, as a sentence.
    """
    login = logins.find(tenant, server.name)
    if login is None:
        return None
    logins.end(tenant, server.name, by=by)
    try:
        account = opened_login(login, sealer, place_of(tenant, server.name))
    except (SealKeyMissing, SealBroken, ValueError):
        return "Its tokens cannot be read any more, so they were not revoked."
    if server.oauth is None or login.bound_to != bound_to(server):
        return "The server's file has changed since, so its tokens were not revoked."
    try:
        is_revoked = await OAuthFlow(server).revoke(account)
    except McpServerDown as error:
        return f"Its tokens were not revoked: {error}"
    return "Its tokens were revoked." if is_revoked else "The authorization server does not revoke tokens."


async def _challenge(server: McpServerDefinition, asker: OAuthAsker) -> str:
    """Return what the server says of how to log in, in answer to a request without a token."""
    request = httpx2.Request("POST", server.url or "", headers=_GREETING, content=b"{}")
    return (await asker.ask(request)).headers.get("www-authenticate", "")


def _require_plain(url: str, asker: OAuthAsker, server: str) -> None:
    try:
        asker.checked(url)
    except (UrlRefused, HostNotAllowed) as error:
        raise McpServerDown(f"the login at the MCP server {server} failed: {error}") from error
    if not _PLAIN.fullmatch(url):
        problem = "the address where to sign in has characters that no such address needs"
        raise McpServerDown(f"the login at the MCP server {server} failed: {problem}.")


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
        parameters = {name: values[-1] for name, values in parse_qs(parts.query, max_num_fields=50).items()}
        if self._state is None or parameters.get("state") != self._state or self._answer.done():
            return "400 Bad Request", "This is not the answer to the login that Callboard waits for."
        if "error" in parameters:
            reason = visible(f"{parameters['error']} {parameters.get('error_description', '')}".strip()[:500])
            self._answer.set_exception(McpServerDown(f"the authorization server refused the login: {reason}."))
            return "200 OK", "The authorization server refused the login. The terminal says more."
        self._answer.set_result(
            AuthorizationCodeResult(
                code=parameters.get("code", ""), state=parameters["state"], iss=parameters.get("iss")
            )
        )
        return "200 OK", "The login is on its way to Callboard. You can close this page."
