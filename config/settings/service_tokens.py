"""The settings of service tokens."""

from __future__ import annotations

from typing import Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from config.identity.role_mapping import parse_mapping
from config.settings.servers import ServerSettings

SERVICE_ALGORITHMS = frozenset("RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA".split())
"""Signatures by a private key; with HMAC each service that checks a token could also make one."""


class ServiceTokenSettings(ServerSettings):
    """Part of ``Settings``; ``trusted_network`` applies to the issuer's server, too."""

    service_issuer: str = ""
    """Whose service tokens (JWT) are credentials: their ``iss``. Empty: of none."""
    service_audience: str = "callboard"
    """What their ``aud`` has to be, or has to be among."""
    service_jwks: str = ""
    """The issuer's public keys: the ``https://`` address of a JWKS, or a file."""
    service_algorithms: str = "RS256,ES256,EdDSA"
    """Comma-separated signature algorithms that are accepted."""
    service_max_lifetime_s: int = Field(default=3600, ge=1)
    """Seconds between ``iat`` and ``exp`` that a token may have at most."""
    service_tenant_claim: str = ""
    """The claim with the tenant; empty: all tokens are of tenant ``default``."""
    service_roles_claim: str = "roles"
    """The claim with the groups that ``service_roles`` maps to roles."""
    service_roles: str = ""
    """Comma-separated ``value=role``: the roles that values of the claim give; other values give none."""

    @model_validator(mode="after")
    def _service_tokens_are_clear(self) -> Self:
        if not self.service_issuer:
            return self
        parts = urlsplit(self.service_jwks)
        is_plain = parts.scheme == "http" and parts.hostname not in ("127.0.0.1", "::1", "localhost")
        if not self.service_jwks or not self.service_audience:
            raise ValueError("CALLBOARD_SERVICE_ISSUER needs CALLBOARD_SERVICE_JWKS and CALLBOARD_SERVICE_AUDIENCE")
        if (is_plain and not self.trusted_network) or parts.scheme not in ("", "http", "https"):
            raise ValueError("CALLBOARD_SERVICE_JWKS has to be an https:// address, or a file")
        if not self.service_algorithm_names or set(self.service_algorithm_names) - SERVICE_ALGORITHMS:
            raise ValueError(
                f"CALLBOARD_SERVICE_ALGORITHMS ({self.service_algorithms}) has to be some of "
                f"{', '.join(sorted(SERVICE_ALGORITHMS))}"
            )
        parse_mapping(self.service_roles)
        return self

    @property
    def service_algorithm_names(self) -> tuple[str, ...]:
        """The accepted signature algorithms of service tokens."""
        return tuple(part.strip() for part in self.service_algorithms.split(",") if part.strip())
