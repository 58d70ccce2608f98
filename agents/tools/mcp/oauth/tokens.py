"""The access tokens of a session: those of a stored login, which one process at a time renews, or the client's own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from contextvars import Context
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, TypeVar

import httpx2

from agents.errors import McpLoginNeeded, McpServerDown
from agents.tools.mcp.oauth.account import OAuthAccount, bound_to, opened_login, place_of, sealed_login
from agents.tools.mcp.oauth.flow import OAuthFlow
from agents.tools.mcp.stores import opened_journal
from bus.journal.stores import McpLogins, SealedLogin
from bus.sealing import SealBroken, Sealer, SealKeyMissing, sealer_of
from config.database.engine import open_database
from config.database.migrate import require_current, require_installation
from config.definitions.mcp.server import McpServerDefinition
from config.egress.target import parse_target
from config.errors import CallboardError
from config.settings import Settings, settings

T = TypeVar("T")

MARGIN_S = 30.0
"""Seconds before its end from which on a token is renewed."""
KNOWN_S = 5.0
"""Seconds that a process uses a login without looking whether it is still there."""
CLAIM_S = 60.0
"""Seconds that a process may take to renew tokens before another one may; longer than the requests of a renewal."""
LOOK_S = 0.2
"""Seconds between two looks at tokens that another process renews."""


class OtherLogin(Exception):
    """A person has logged in anew: the session belongs to the login before."""


class TokenSource(Protocol):
    """What a connection gets its access tokens from."""

    async def current(self) -> str:
        """Return the access token to be sent.

        Raises:
            McpLoginNeeded: a person has to log in.
            McpServerDown: the authorization server cannot be asked, or refuses.
            OtherLogin: the session is that of another login.
        """

    async def renewed(self, refused: str) -> str:
        """Return another access token than the one that the server refused; raises as ``current``."""


class OwnTokens:
    """Tokens that the client gets by its own credentials; they are in memory alone."""

    def __init__(self, tenant: str, server: McpServerDefinition) -> None:
        self._server, self._place = server, place_of(tenant, server.name)
        self._account: OAuthAccount | None = None
        self._work = _Work()

    async def current(self) -> str:
        return await self._work.done(self._other_than(""))

    async def renewed(self, refused: str) -> str:
        return await self._work.done(self._other_than(refused))

    async def _other_than(self, refused: str) -> str:
        account = self._account
        if account is None or not account.is_fresh(MARGIN_S) or account.tokens.access_token == refused:
            account = self._account = await OAuthFlow(self._server, account_key=self._place).with_credentials()
        return account.tokens.access_token


class LoginTokens:
    """Tokens of a login that a person made with ``./callboard mcp login``."""

    def __init__(self, tenant: str, server: McpServerDefinition) -> None:
        self._tenant, self._server, self._place = tenant, server, place_of(tenant, server.name)
        self._login: SealedLogin | None = None
        self._account: OAuthAccount | None = None
        self._read_s = 0.0
        self._session_of: str | None = None
        self._work = _Work()

    async def current(self) -> str:
        account, _ = await self._known(KNOWN_S)
        if account.is_fresh(MARGIN_S):
            return account.tokens.access_token
        return await self.renewed(account.tokens.access_token)

    async def renewed(self, refused: str) -> str:
        return await self._work.done(self._other_than(refused))

    async def _other_than(self, refused: str) -> str:
        """Return the token that follows ``refused``, renewed here or by another process."""
        until_s = time.monotonic() + CLAIM_S
        while time.monotonic() < until_s:
            account, login = await self._known(0.0)
            if account.tokens.access_token != refused and account.is_fresh(0.0):
                return account.tokens.access_token
            if await self._write("claim", login, int(CLAIM_S * 1000)):
                return await self._renewed_here(account, login)
            await asyncio.sleep(LOOK_S)
        raise McpServerDown(f"another process has been renewing the tokens for the MCP server {self._server.name}.")

    async def _renewed_here(self, account: OAuthAccount, login: SealedLogin) -> str:
        try:
            renewal = await OAuthFlow(self._server, account_key=self._place).renewed(account)
        except McpServerDown:
            await self._write("release", login)
            raise
        if renewal is None:
            await self._write("remove", login)
            raise self._needed("the login has ended")
        await self._write("renew", login, sealed_login(renewal, (await _logins()).sealer, self._place, login))
        self._read_s = 0.0
        return renewal.tokens.access_token

    async def _known(self, age_s: float) -> tuple[OAuthAccount, SealedLogin]:
        """Return the stored account, as it was at most so many seconds ago.

        Raises:
            McpLoginNeeded: there is none that can be used.
            OtherLogin: it is not the one that the session began with.
        """
        if self._account is None or self._login is None or time.monotonic() - self._read_s >= age_s:
            await self._read()
        assert self._login is not None
        assert self._account is not None
        if self._session_of not in (None, self._login.id):
            raise OtherLogin
        self._session_of = self._login.id
        return self._account, self._login

    async def _read(self) -> None:
        store, sealer = await _logins()
        login = await asyncio.to_thread(store.find, self._tenant, self._server.name)
        if login is None:
            raise self._needed("and there is none")
        if login.bound_to != bound_to(self._server):
            raise self._needed("since its file has changed after the last one")
        if self._login != login:
            try:
                self._account = opened_login(login, sealer, self._place)
            except (SealKeyMissing, SealBroken, ValueError) as error:
                raise self._needed("since the last one cannot be read with CALLBOARD_SEAL_KEYS") from error
        self._login, self._read_s = login, time.monotonic()

    async def _write(self, what: str, login: SealedLogin, *more: object) -> bool:
        write = getattr((await _logins()).store, what)
        return bool(await asyncio.to_thread(write, self._tenant, self._server.name, login, *more))

    def _needed(self, why: str) -> McpLoginNeeded:
        self._login = self._account = None
        opened = opened_journal()
        is_own = self._tenant == (settings() if opened is None else opened.settings).tenant
        remedy = f"run `./callboard mcp login {self._server.name}{'' if is_own else f' --tenant {self._tenant}'}`"
        return McpLoginNeeded(f"the MCP server {self._server.name} needs a login, {why}; {remedy}.")


class _Work:
    """Does one thing after the other, each to its end: new tokens must not get lost with the call that needs them."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()

    async def done(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what the work returns. It has no context, so what it sends is not recorded with the caller's step."""
        task = asyncio.get_running_loop().create_task(self._alone(work), context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    async def _alone(self, work: Coroutine[Any, Any, T]) -> T:
        async with self._lock:
            return await work


def new_tokens(tenant: str, server: McpServerDefinition) -> TokenSource | None:
    """Return what a session gets its access tokens from; None where the server's file has no ``oauth``."""
    if server.oauth is None:
        return None
    return LoginTokens(tenant, server) if server.oauth.needs_login else OwnTokens(tenant, server)


class _Logins(NamedTuple):
    """Where the logins are, and what decrypts them."""

    store: McpLogins
    sealer: Sealer


async def _logins() -> _Logins:
    """Return the logins in this process's journal; those of the settings in a command without one, as the doctor.

    Raises:
        McpServerDown: there is no database that can be used.
    """
    opened = opened_journal()
    if opened is not None:
        return _Logins(opened.journal.stores.mcp_logins, _sealer(opened.settings))
    try:
        return await asyncio.to_thread(_logins_of, settings())
    except CallboardError as error:
        raise McpServerDown(f"the logins at MCP servers cannot be read: {error}") from error


@lru_cache(maxsize=1)
def _logins_of(chosen: Settings) -> _Logins:
    require_installation(chosen)
    database = open_database(chosen.database)
    require_current(database)
    return _Logins(McpLogins(database), _sealer(chosen))


def _sealer(chosen: Settings) -> Sealer:
    return sealer_of(chosen) or Sealer(())


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
