"""The identity provider: its discovery document and keys, and the exchange of codes for tokens."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx2
from authlib.common.errors import AuthlibBaseError
from authlib.integrations.httpx_client import OAuth2Client
from authlib.oidc.core import CodeIDToken
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from config.egress.bounded import Bounds
from config.egress.errors import UrlRefused
from config.egress.policy import allowed_in
from config.egress.target import parse_target
from config.settings import Settings
from web import jwt
from web.errors import Overloaded
from web.jwt import public_keys
from web.oidc.errors import PROVIDER_UNREACHABLE, SIGN_IN_REFUSED
from web.oidc.sign_in import Attempt

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519")
"""Signatures with the provider's private key: never ``none``, and no MAC, whose key could be a public one."""
LEEWAY_S = 30
"""Seconds that the provider's clock may differ from ours."""


def key_id_of(token: Mapping[str, Any]) -> str | None:
    """Return the id of the key that an id token says it was signed with, unverified.

    Raises:
        SIGN_IN_REFUSED: the answer has no id token.
    """
    text = token.get("id_token")
    if not isinstance(text, str):
        raise SIGN_IN_REFUSED("the identity provider sent no id token; its client has to allow the scope `openid`.")
    key_id = jwt.header_of(text).get("kid")
    return key_id if isinstance(key_id, str) else None


def claims_of(
    token: Mapping[str, Any], keys: KeySet, metadata: Mapping[str, Any], settings: Settings, nonce: str
) -> Mapping[str, Any]:
    """Return the claims of a token's id token.

    Raises:
        JoseError: its signature, issuer, audience, times or nonce are not right.
    """
    offered = metadata.get("id_token_signing_alg_values_supported", ALGORITHMS)
    token_data = jwt.verified(token["id_token"], keys, [name for name in ALGORITHMS if name in offered])
    claim_rules = {
        "iss": {"essential": True, "value": settings.oidc_issuer},
        "aud": {"essential": True, "value": settings.oidc_client_id},
        "sub": {"essential": True},
        "nonce": {"essential": True, "value": nonce},
    }
    params = {"nonce": nonce, "client_id": settings.oidc_client_id, "access_token": token.get("access_token")}
    claims = CodeIDToken(token_data.claims, token_data.header, claim_rules, params)
    claims.validate(leeway=LEEWAY_S)
    return dict(claims)


log = logging.getLogger(__name__)

MAX_BYTES = 1024 * 1024
TIMEOUT_S = 4.0
"""Seconds that the provider may take to connect, and to send the next bytes of an answer."""
TOTAL_S = 8.0
"""Seconds that the body of an answer may take."""
FRESH_S = 3600.0
"""Seconds that the discovery document and the keys are used for."""
KEYS_AGAIN_S = 30.0
"""Seconds after which an unknown key id may cause the keys to be read again."""
MAX_AT_ONCE = 4
"""Requests that may hold a thread while they wait for the provider."""
ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")


class Provider:
    """The provider of one deployment, as this process knows it; connects when it is first needed."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._issuer = settings.oidc_issuer or ""
        self._metadata: Mapping[str, Any] = {}
        self._metadata_at_s = self._keys_at_s = -FRESH_S
        self._keys = KeySet([])
        self._lock = threading.Lock()
        self._waiting = threading.BoundedSemaphore(MAX_AT_ONCE)

    def authorization_url(self, attempt: Attempt, redirect_uri: str) -> str:
        """Return where a person signs in."""
        with self._asking(redirect_uri) as client:
            url, _ = client.create_authorization_url(
                self._discovered(client)["authorization_endpoint"],
                state=attempt.state,
                nonce=attempt.nonce,
                code_verifier=attempt.verifier,
            )
        return str(url)

    def claims(self, code: str, attempt: Attempt, redirect_uri: str) -> Mapping[str, Any]:
        """Return what the provider says of the person who signed in.

        Raises:
            SIGN_IN_REFUSED: the code or the token is not valid.
            PROVIDER_UNREACHABLE: it does not answer.
        """
        with self._asking(redirect_uri) as client:
            metadata = self._discovered(client)
            token = client.fetch_token(
                metadata["token_endpoint"], grant_type="authorization_code", code=code, code_verifier=attempt.verifier
            )
            keys = self._keys_for(client, key_id_of(token))
            claims = claims_of(token, keys, metadata, self._settings, attempt.nonce)
            return {**self._user_info(client, claims), **claims}

    def sign_out_url(self, return_to: str) -> str | None:
        """Return where a person ends the session at the provider too, if that has been asked for anything yet."""
        endpoint = self._metadata.get("end_session_endpoint")
        if not endpoint:
            return None
        parameters = {"client_id": self._settings.oidc_client_id, "post_logout_redirect_uri": return_to}
        return str(httpx2.URL(endpoint).copy_merge_params(parameters))

    def _user_info(self, client: OAuth2Client, claims: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return more claims, where the id token lacks one that the settings name."""
        chosen = self._settings
        claim_names = {chosen.oidc_principal_claim, chosen.oidc_roles_claim.partition(".")[0], chosen.oidc_tenant_claim}
        endpoint = self._metadata.get("userinfo_endpoint")
        if endpoint is None or claim_names - {""} <= set(claims):
            return {}
        user_info = self._read(client, endpoint, withhold_token=False)
        if user_info.get("sub") != claims["sub"]:
            raise SIGN_IN_REFUSED("the provider answered for another person; start again.")
        return user_info

    def _discovered(self, client: OAuth2Client) -> Mapping[str, Any]:
        with self._lock:
            if time.monotonic() - self._metadata_at_s >= FRESH_S:
                self._metadata = self._discover(client)
                self._metadata_at_s = time.monotonic()
            return self._metadata

    def _discover(self, client: OAuth2Client) -> Mapping[str, Any]:
        metadata = self._read(client, self._issuer.rstrip("/") + "/.well-known/openid-configuration")
        if metadata.get("issuer") != self._issuer:
            raise PROVIDER_UNREACHABLE(
                f"the provider calls itself '{str(metadata.get('issuer'))[:120]}' and CALLBOARD_OIDC_ISSUER is "
                f"'{self._issuer}'; they have to be equal to the character."
            )
        for name in (*ENDPOINTS, "userinfo_endpoint", "end_session_endpoint"):
            if (name in metadata or name in ENDPOINTS) and not self._is_address(metadata.get(name)):
                raise PROVIDER_UNREACHABLE(f"the provider's discovery document has no usable '{name}'.")
        return metadata

    def _is_address(self, value: object) -> bool:
        schemes = ("https",) if self._issuer.startswith("https:") else ("https", "http")
        try:
            return isinstance(value, str) and parse_target(value).scheme in schemes
        except UrlRefused:
            return False

    def _keys_for(self, client: OAuth2Client, key_id: str | None) -> KeySet:
        with self._lock:
            age_s = time.monotonic() - self._keys_at_s
            is_unknown = key_id is not None and all(key.kid != key_id for key in self._keys.keys)
            if age_s >= FRESH_S or (is_unknown and age_s >= KEYS_AGAIN_S):
                self._keys = KeySet(list(public_keys(self._read(client, self._metadata["jwks_uri"]))))
                self._keys_at_s = time.monotonic()
            return self._keys

    def _read(self, client: OAuth2Client, url: str, *, withhold_token: bool = True) -> dict[str, Any]:
        answer = client.request("GET", url, withhold_token=withhold_token, headers={"Accept": "application/json"})
        answer.raise_for_status()
        document = answer.json()
        if not isinstance(document, dict):
            raise ValueError("not an object")
        return document

    @contextmanager
    def _asking(self, redirect_uri: str) -> Iterator[OAuth2Client]:
        """Yield a client of the provider; its errors become ours, with what it sent in the log only."""
        if not self._waiting.acquire(blocking=False):
            raise Overloaded("many people are signing in just now; try again in a moment.", retry_after_s=2)
        secret = self._settings.oidc_client_secret
        allowed = allowed_in(self._settings.http_allowed_hosts)
        bounds = Bounds(max_bytes=MAX_BYTES, timeout_s=TIMEOUT_S, total_s=TOTAL_S, allowed=allowed)
        try:
            with OAuth2Client(
                self._settings.oidc_client_id,
                secret.get_secret_value() if secret is not None else None,
                token_endpoint_auth_method="client_secret_basic" if secret is not None else "none",
                scope=" ".join(self._settings.oidc_scope_list),
                redirect_uri=redirect_uri,
                code_challenge_method="S256",
                **bounds.client_options(),
            ) as client:
                yield client
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, KeyError) as error:
            log.warning("the identity provider cannot be used: %r", error)
            problem = "the identity provider does not answer as it should; try again in a moment. The log has details."
            raise PROVIDER_UNREACHABLE(problem) from error
        except (AuthlibBaseError, JoseError) as error:
            log.warning("sign-in refused: %s", error)
            raise SIGN_IN_REFUSED("the identity provider did not confirm this sign-in; start again.") from error
        finally:
            self._waiting.release()
