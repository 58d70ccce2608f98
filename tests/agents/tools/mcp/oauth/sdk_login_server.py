"""The SDK's own MCP server with its own authorization server: ``python sdk_login_server.py http|sse PORT LIFETIME_S``.

Tokens are valid for so many seconds, and bound to the resource that they were asked for.
"""

from __future__ import annotations

import secrets
import sys
import time

from mcp.server import MCPServer
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

KIND, PORT, LIFETIME_S = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
ORIGIN = f"http://127.0.0.1:{PORT}"


class InMemory(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """Lets everyone in as ann."""

    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.access: dict[str, AccessToken] = {}
        self.refresh: dict[str, RefreshToken] = {}

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        code = secrets.token_urlsafe(32)
        self.codes[code] = AuthorizationCode(
            code=code,
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
            subject="ann",
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state, iss=ORIGIN)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._tokens(client.client_id, authorization_code.scopes, authorization_code.resource)

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        del self.refresh[refresh_token.token]
        return self._tokens(client.client_id, scopes, refresh_token.resource)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.access.pop(token.token, None)
        self.refresh.pop(token.token, None)

    def _tokens(self, client_id: str, scopes: list[str], resource: str | None) -> OAuthToken:
        access, refresh = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        common = {"client_id": client_id, "scopes": scopes, "resource": resource, "subject": "ann"}
        expires_at = int(time.time()) + LIFETIME_S
        self.access[access] = AccessToken(token=access, expires_at=expires_at, **common)  # type: ignore[arg-type]
        self.refresh[refresh] = RefreshToken(token=refresh, **common)  # type: ignore[arg-type]
        return OAuthToken(access_token=access, refresh_token=refresh, expires_in=LIFETIME_S, scope=" ".join(scopes))


OPTIONS = {
    "issuer_url": ORIGIN,
    "resource_server_url": f"{ORIGIN}/{'sse' if KIND == 'sse' else 'mcp'}",
    "required_scopes": ["read"],
    "client_registration_options": {"enabled": True, "valid_scopes": ["read"], "default_scopes": ["read"]},
    "revocation_options": {"enabled": True},
    "validate_token_resource": True,
}
server = MCPServer("guarded", auth_server_provider=InMemory(), auth=AuthSettings.model_validate(OPTIONS))


@server.tool()
def whoami() -> str:
    """Return whose token the call has, and the token's end."""
    token = get_access_token()
    return f"{token.subject} {token.expires_at}" if token else "a stranger"


if __name__ == "__main__":
    if KIND == "sse":
        server.run("sse", port=PORT)
    else:
        server.run("streamable-http", port=PORT)
