"""Validation of id tokens (OpenID Connect Core 3.1.3.7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from authlib.oidc.core import CodeIDToken
from joserfc.jwk import KeySet

from config.settings import Settings
from web import jwt
from web.oidc.errors import SIGN_IN_REFUSED

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
    found = jwt.header_of(text).get("kid")
    return found if isinstance(found, str) else None


def claims_of(
    token: Mapping[str, Any], keys: KeySet, metadata: Mapping[str, Any], settings: Settings, nonce: str
) -> Mapping[str, Any]:
    """Return the claims of a token's id token.

    Raises:
        JoseError: its signature, issuer, audience, times or nonce are not right.
    """
    offered = metadata.get("id_token_signing_alg_values_supported", ALGORITHMS)
    found = jwt.verified(token["id_token"], keys, [name for name in ALGORITHMS if name in offered])
    wanted = {
        "iss": {"essential": True, "value": settings.oidc_issuer},
        "aud": {"essential": True, "value": settings.oidc_client_id},
        "sub": {"essential": True},
        "nonce": {"essential": True, "value": nonce},
    }
    params = {"nonce": nonce, "client_id": settings.oidc_client_id, "access_token": token.get("access_token")}
    claims = CodeIDToken(found.claims, found.header, wanted, params)
    claims.validate(leeway=LEEWAY_S)
    return dict(claims)
