"""Drives the SDK's OAuth flow beside the requests of a session.

The SDK's provider is made to authenticate requests of a client, and holds a lock while each of them is answered, so one
long call would keep all others waiting. Here it gets a request that is not sent: the refusal that begins its flow is
given to it, and its own requests go by ``OAuthAsker``.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.client.auth.oauth2 import OAuthContext
from mcp.client.auth.utils import (
    extract_resource_metadata_from_www_auth,
    extract_scope_from_www_auth,
    issuers_match,
)
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl, ValidationError

from agents.errors import McpServerDown
from agents.tools.mcp.oauth.account import OAuthAccount
from agents.tools.mcp.oauth.requests import OAuthAsker
from agents.tools.mcp.sdk_logging import limit_sdk_logging
from config.clock import epoch_ms
from config.definitions.mcp.oauth import McpOAuthFields
from config.definitions.mcp.server import McpServerDefinition
from config.redaction import redact_start
from config.text.visible import visible

Redirect = Callable[[str], Awaitable[None]]
"""Shows a person the address where to sign in."""
Return = Callable[[], Awaitable[AuthorizationCodeResult]]
"""Waits until the person's browser comes back."""
MAX_MESSAGE = 500
"""Characters of an authorization server's own text."""
MAX_LIFETIME_S = 10 * 365 * 86_400
_TOKEN = re.compile(r"[\x21-\x7e]{1,16384}")
_REFUSED = (400, 401, 403)
"""What an authorization server answers to a refresh token that it does not take."""


class _FlowStorage:
    """The storage that the SDK asks for: what is known, for as long as the flow lasts."""

    def __init__(self, account: OAuthAccount | None, client: OAuthClientInformationFull | None) -> None:
        self.tokens = account.tokens if account else None
        self.client = account.client if account else client

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class OAuthFlow:
    """One attempt to get tokens for a server."""

    def __init__(
        self, server: McpServerDefinition, asker: OAuthAsker | None = None, *, account_key: str | None = None
    ) -> None:
        """``place``: whose tokens they are, as ``place_of`` returns it; None in a command, which ends after it."""
        assert server.oauth is not None
        assert server.url is not None
        self._server, self._oauth, self._url = server, server.oauth, server.url
        self._asker = asker or OAuthAsker(server)
        self._place = account_key
        self._status = 0

    async def login(self, port: int, redirect: Redirect, callback: Return, challenge: str = "") -> OAuthAccount:
        """Return the account of the person who signs in; ``challenge`` is the ``WWW-Authenticate`` of the server.

        Raises:
            McpServerDown: there is no authorization server that may be used, or it refused.
        """
        storage = _FlowStorage(None, _registered_client(self._oauth, port))

        async def checked_redirect(url: str) -> None:
            self._require_metadata(provider)
            await redirect(url)

        provider = OAuthClientProvider(
            self._url,
            OAuthClientMetadata(
                client_name="Callboard",
                redirect_uris=[AnyUrl(redirect_uri(port))],
                token_endpoint_auth_method=None if self._oauth.client_secret else "none",
            ),
            storage,
            checked_redirect,
            callback,
            self._oauth.client_metadata_url,
        )
        return await self._driven(provider, storage, self._refusal(challenge))

    async def with_credentials(self) -> OAuthAccount:
        """Return an account by the client's own credentials.

        Raises:
            McpServerDown: as ``login``.
            SECRET_MISSING: a reference leads to nothing.
        """
        secrets, oauth = self._oauth.secret_values(), self._oauth
        storage = _FlowStorage(None, None)
        common: dict[str, Any] = {
            "server_url": self._url,
            "storage": storage,
            "client_id": oauth.client_id,
            "scope": oauth.scope,
            "issuer": oauth.issuer,
        }
        provider: OAuthClientProvider
        if "private_key" in secrets:
            signing = SignedJWTParameters(
                issuer=oauth.client_id or "",
                subject=oauth.client_id or "",
                signing_key=secrets["private_key"],
                signing_algorithm=oauth.signing_algorithm,
            )
            provider = PrivateKeyJWTOAuthProvider(**common, assertion_provider=_signing(signing))
        else:
            provider = ClientCredentialsOAuthProvider(**common, client_secret=secrets["client_secret"])
        return await self._driven(provider, storage, self._refusal(""))

    async def renewed(self, account: OAuthAccount) -> OAuthAccount | None:
        """Return the account with new tokens; None where its refresh token is no longer accepted, or there is none.

        Raises:
            McpServerDown: the authorization server cannot be asked now.
        """
        if account.tokens.refresh_token is None:
            return None
        storage = _FlowStorage(account, None)
        metadata = OAuthClientMetadata(redirect_uris=[AnyUrl(redirect_uri(0))])
        provider = OAuthClientProvider(self._url, metadata, storage)
        provider.context.oauth_metadata = account.authorization_server
        provider.context.protected_resource_metadata = account.resource
        provider.context.token_expiry_time = 1.0  # long ago, so that the SDK asks for others
        try:
            renewal = await self._driven(provider, storage, None)
        except McpServerDown:
            if self._status in _REFUSED:
                return None
            raise
        return renewal.model_copy(update={"client": account.client})

    async def revoke(self, account: OAuthAccount) -> bool:
        """Have the authorization server forget the account's tokens (RFC 7009); return whether it can.

        Raises:
            McpServerDown: it cannot be asked, or refuses.
        """
        server = account.authorization_server
        if server is None or server.revocation_endpoint is None:
            return False
        context = OAuthContext(
            self._url, OAuthClientMetadata(redirect_uris=None), _FlowStorage(account, None), None, None
        )
        context.client_info = account.client
        for name in ("refresh_token", "access_token"):
            token = getattr(account.tokens, name)
            if token is None:
                continue
            data = {"token": token, "token_type_hint": name, "client_id": account.client.client_id}
            data, headers = context.prepare_token_auth(data, {"Content-Type": "application/x-www-form-urlencoded"})
            request = httpx2.Request("POST", str(server.revocation_endpoint), data=data, headers=headers)
            answer = await self._asker.ask(request)
            if answer.status_code != 200:
                raise McpServerDown(f"the authorization server answered HTTP {answer.status_code}.")
        return True

    async def _driven(
        self, provider: OAuthClientProvider, storage: _FlowStorage, refusal: httpx2.Response | None
    ) -> OAuthAccount:
        """Return the account that the provider's flow leads to; without ``refusal`` it only renews."""
        limit_sdk_logging()
        before = storage.tokens
        try:
            await self._drive(provider, refusal)
        except (OAuthFlowError, ValidationError, ValueError, UnicodeError) as error:
            text = visible(redact_start(str(error), MAX_MESSAGE))
            raise McpServerDown(
                f"the login at the MCP server {self._server.name} failed: {text.rstrip('.')}."
            ) from None
        if storage.tokens is None or storage.tokens is before:
            problem = f"the login at the MCP server {self._server.name} failed: there are no new tokens"
            raise McpServerDown(f"{problem} (HTTP {self._status}).")
        return self._account(provider, storage.tokens, storage.client)

    async def _drive(self, provider: OAuthClientProvider, refusal: httpx2.Response | None) -> None:
        request = httpx2.Request("POST", self._url)
        flow = provider.async_auth_flow(request)
        try:
            outgoing = await flow.__anext__()
            while outgoing is not request or refusal is not None:
                if outgoing is request:
                    assert refusal is not None
                    answer, refusal = refusal, None
                else:
                    self._require_own_issuer(provider, outgoing)
                    answer = await self._asker.ask(outgoing)
                    self._status = answer.status_code
                outgoing = await flow.asend(answer)
        finally:
            await flow.aclose()

    def _require_own_issuer(self, provider: OAuthClientProvider, outgoing: httpx2.Request) -> None:
        """Return if the request goes to the authorization server that the file names; discovery alone goes elsewhere.

        Raises:
            OAuthFlowError: it goes to another one, or its metadata were not found.
        """
        metadata, issuer = provider.context.oauth_metadata, self._oauth.issuer
        if metadata is None and outgoing.method == "GET":
            return
        self._require_metadata(provider)
        if issuer is None:
            return
        if metadata is None or not issuers_match(str(metadata.issuer), issuer):
            description = (
                "no authorization server" if metadata is None else f"the authorization server {metadata.issuer}"
            )
            raise OAuthFlowError(f"the MCP server leads to {description}, and its file names {issuer}")

    @staticmethod
    def _require_metadata(provider: OAuthClientProvider) -> None:
        """Return if the authorization server that the MCP server names has metadata.

        The SDK takes the MCP server itself for one otherwise, as servers of 2025-03 were that name none.

        Raises:
            OAuthFlowError: it has none, or none that can be used.
        """
        named = provider.context.auth_server_url
        if named is not None and provider.context.oauth_metadata is None:
            raise OAuthFlowError(f"the authorization server {named} has no metadata that can be used")

    def _account(
        self, provider: OAuthClientProvider, tokens: OAuthToken, client: OAuthClientInformationFull | None
    ) -> OAuthAccount:
        context = provider.context
        client_info = client or context.client_info
        if client_info is None:
            raise McpServerDown(f"the login at the MCP server {self._server.name} failed: there is no client.")
        if not _TOKEN.fullmatch(tokens.access_token):
            raise McpServerDown(f"the login at the MCP server {self._server.name} failed: its token cannot be sent.")
        lifetime_s = None if tokens.expires_in is None else min(max(tokens.expires_in, 0), MAX_LIFETIME_S)
        account = OAuthAccount(
            tokens=tokens,
            client=client_info,
            authorization_server=context.oauth_metadata,
            resource=context.protected_resource_metadata,
            expires_ms=None if lifetime_s is None else epoch_ms() + lifetime_s * 1000,
        )
        account.register(self._place)
        return account

    def _refusal(self, challenge: str) -> httpx2.Response:
        """Return the answer that begins the SDK's flow, with the scopes that the file asks for."""
        request = httpx2.Request("POST", self._url)
        written = {"www-authenticate": challenge.encode("ascii", "ignore").decode()}
        response = httpx2.Response(401, headers=written, request=request)
        challenge_params = {
            "resource_metadata": extract_resource_metadata_from_www_auth(response),
            "scope": self._oauth.scope or extract_scope_from_www_auth(response),
        }
        parts = ", ".join(f'{name}="{value}"' for name, value in challenge_params.items() if value)
        return httpx2.Response(401, headers={"www-authenticate": f"Bearer {parts}"}, request=request)


def _signing(parameters: SignedJWTParameters) -> Callable[[str], Awaitable[str]]:
    """Return what signs for an audience; what is wrong with the key is an error of the flow."""
    sign = parameters.create_assertion_provider()

    async def signed(audience: str) -> str:
        try:
            return await sign(audience)
        except Exception as error:  # the library has one of its own for each kind of key
            problem = f"the private key cannot sign with {parameters.signing_algorithm}"
            raise OAuthFlowError(f"{problem} ({type(error).__name__})") from error

    return signed


def redirect_uri(port: int) -> str:
    """Return where the browser comes back: on this machine, as RFC 8252 has it for programs."""
    return f"http://127.0.0.1:{port}/callback"


def _registered_client(oauth: McpOAuthFields, port: int) -> OAuthClientInformationFull | None:
    """Return the client of the file; None where it is to be registered."""
    if oauth.client_id is None:
        return None
    return OAuthClientInformationFull(
        client_id=oauth.client_id,
        client_secret=oauth.secret_values().get("client_secret"),
        token_endpoint_auth_method="client_secret_basic" if oauth.client_secret else "none",
        redirect_uris=[AnyUrl(redirect_uri(port))],
        issuer=oauth.issuer,
    )
