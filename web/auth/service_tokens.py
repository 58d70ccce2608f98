"""Service tokens: JWTs of the configured issuer, by which other services act as themselves."""

from __future__ import annotations

import re
from typing import Any

from joserfc.errors import JoseError
from joserfc.jwt import JWTClaimsRegistry

from bus.identity.credentials.credential import Caller, Credential, CredentialKind
from config.identity.principal import NAME, Principal, parse_mapping, roles_of
from web import jwt
from web.auth.jwks import KeySet
from web.auth.keys import DisabledPrincipals
from web.process import WebProcess

LEEWAY_S = 10
"""Seconds by which the clock of the issuer may differ from this machine's."""
TYPES = frozenset({"jwt", "at+jwt"})
"""What the header ``typ`` may be; absent is usual, too."""


class ServiceTokens:
    """Finds the callers of service tokens; one per process."""

    def __init__(self, process: WebProcess) -> None:
        self._settings = settings = process.settings
        self._algorithms = settings.service_algorithm_names
        self._keys = KeySet(settings.service_jwks, self._algorithms)
        self._claims = JWTClaimsRegistry(
            leeway=LEEWAY_S,
            iss={"essential": True, "value": settings.service_issuer or ""},
            aud={"essential": True, "value": settings.service_audience or ""},
            sub={"essential": True},
            exp={"essential": True},
            iat={"essential": True},
        )
        self._roles = parse_mapping(settings.service_roles)
        self._disabled = DisabledPrincipals(process)

    def caller(self, token: str) -> Caller | None:
        """Return who acts with this token; None: it is not valid, whatever the reason.

        Raises:
            ISSUER_UNREACHABLE: the issuer's keys are not known.
        """
        try:
            claims = self._verified(token)
            principal = self._principal(claims)
        except (JoseError, ValueError, TypeError, OverflowError, RecursionError):  # of a hostile token
            return None
        is_long = claims["exp"] - claims["iat"] > self._settings.service_max_lifetime_s
        if is_long or self._settings.is_local(principal) or self._disabled.has(principal):
            return None
        credential = Credential(kind=CredentialKind.SERVICE, expires_ms=(claims["exp"] + LEEWAY_S) * 1000)
        return Caller(principal=principal, credential=credential)

    def _verified(self, token: str) -> dict[str, Any]:
        header = jwt.header_of(token)
        key_id, kind = header.get("kid"), header.get("typ", "JWT")
        # All of it before the issuer is asked for the key.
        if not isinstance(key_id, str) or not isinstance(kind, str) or kind.lower() not in TYPES:
            raise ValueError("not a token of a service")
        if header.get("alg") not in self._algorithms:
            raise ValueError("not an algorithm that is allowed")
        key = self._keys.key(key_id)
        if key is None:
            raise ValueError("not a key of the issuer")
        claims = jwt.verified(token, key, [str(jwt.algorithm_of(key))]).claims
        self._claims.validate(claims)
        if type(claims["exp"]) is not int or type(claims["iat"]) is not int:
            raise ValueError("not whole seconds")
        return claims

    def _principal(self, claims: dict[str, Any]) -> Principal:
        """Return the principal of the claims, which are those of a verified token."""
        claim = self._settings.service_tenant_claim
        tenant = claims.get(claim) if claim else "default"
        for name in (tenant, claims["sub"]):
            if not isinstance(name, str) or re.fullmatch(NAME, name) is None:
                raise ValueError("not a name")
        roles = roles_of(claims.get(self._settings.service_roles_claim), self._roles)
        return Principal(tenant=str(tenant), id=claims["sub"], roles=roles)
