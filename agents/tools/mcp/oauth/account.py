"""What a login leaves: tokens, who the client is, and the authorization server they belong to; sealed in SQL.

Of a login's tokens this process redacts the newest, and those before them that may still be used: a worker that lives
for months renews thousands, and each text is searched for every value that is redacted.
"""

from __future__ import annotations

import hashlib
import threading
from typing import NamedTuple

import orjson
from mcp.shared.auth import OAuthClientInformationFull, OAuthMetadata, OAuthToken, ProtectedResourceMetadata
from pydantic import BaseModel, ConfigDict

from bus.journal.stores import SealedLogin
from bus.sealing import Sealer
from config.clock import epoch_ms
from config.definitions.mcp.server import McpServerDefinition
from config.forks import after_fork
from config.redaction import register_secrets, set_secrets


class OAuthAccount(BaseModel):
    """A client's account at a server."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    tokens: OAuthToken
    client: OAuthClientInformationFull
    authorization_server: OAuthMetadata | None = None
    resource: ProtectedResourceMetadata | None = None
    expires_ms: int | None = None
    """When the access token does; None where the server does not say."""

    def __repr__(self) -> str:
        return "OAuthAccount()"

    __str__ = __repr__

    def register(self, account_key: str | None) -> None:
        """Have what is secret in it redacted wherever this process writes.

        ``place`` is ``place_of``: of the accounts there, those are redacted that may still be used. None: for as long
        as the process lives.
        """
        token = self.tokens.access_token
        secrets = frozenset(filter(None, (token, self.tokens.refresh_token, self.client.client_secret)))
        if account_key is None:
            register_secrets(secrets)
        else:
            redact_issued(account_key, token, secrets, self.expires_ms, epoch_ms())

    def is_fresh(self, margin_s: float) -> bool:
        """Return whether the access token is good for so long."""
        return self.expires_ms is None or epoch_ms() + margin_s * 1000 < self.expires_ms


def sealed_login(account: OAuthAccount, sealer: Sealer, account_key: str, login: SealedLogin) -> SealedLogin:
    """Return the login with an account's tokens; ``place`` is ``place_of``, ``known`` says which login it is."""
    data = account.model_dump(mode="json", exclude_none=True)
    key_name, sealed = sealer.seal(data, f"{account_key}\n{login.id}\n{login.bound_to}")
    return SealedLogin(
        id=login.id,
        bound_to=login.bound_to,
        version=login.version + 1,
        key_name=key_name,
        sealed=sealed,
        expires_ms=account.expires_ms,
    )


def opened_login(login: SealedLogin, sealer: Sealer, account_key: str) -> OAuthAccount:
    """Return the account of a login.

    Raises:
        SealKeyMissing, SealBroken: it cannot be decrypted, or was moved from another tenant or server.
    """
    data = sealer.unseal(login.key_name, login.sealed, f"{account_key}\n{login.id}\n{login.bound_to}")
    account = OAuthAccount.model_validate(data)
    account.register(account_key)
    return account


def place_of(tenant: str, server: str) -> str:
    """Return whose tokens they are, to which they are bound by their encryption."""
    return f"mcp login\n{tenant}\n{server}"


def bound_to(server: McpServerDefinition) -> str:
    """Return a digest of the server's address and of who the client is: with another one the tokens are not used."""
    oauth = server.oauth
    assert oauth is not None
    facts = [server.url, oauth.grant, oauth.issuer, oauth.client_id, oauth.client_metadata_url]
    return hashlib.sha256(orjson.dumps(facts)).hexdigest()


KEPT = 2
"""Tokens of a login that are redacted even if they have expired: requests with the one before may be under way."""
MAX_KEPT = 8
"""Tokens of a login that are redacted, however many are still valid."""


class _Issued(NamedTuple):
    token: str
    secrets: frozenset[str]
    expires_ms: int | None


_lock = threading.Lock()
_issued: dict[str, tuple[_Issued, ...]] = {}
"""Whose tokens they are -> the tokens, the newest last."""


@after_fork
def _renew() -> None:
    global _lock
    _lock = threading.Lock()


def redact_issued(address: str, token: str, secrets: frozenset[str], expires_ms: int | None, now_ms: int) -> None:
    """Have the secrets that came with an access token redacted, and no longer those of tokens that have expired.

    ``place`` is whose tokens they are; ``expires_ms`` is None where the server does not say, which counts as valid. A
    token that is known already becomes the newest.
    """
    with _lock:
        before = [item for item in _issued.get(address, ()) if item.token != token]
        issued = [*before, _Issued(token, secrets, expires_ms)][-MAX_KEPT:]
        valid = [item for item in issued[:-KEPT] if item.expires_ms is None or now_ms < item.expires_ms]
        _issued[address] = (*valid, *issued[-KEPT:])
        set_secrets(address, {secret for item in _issued[address] for secret in item.secrets})
