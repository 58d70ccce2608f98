"""The settings that say who may call, with which credentials, and who acts where none is asked for."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from config.egress.origins import listed
from config.identity.principal import NAME, Principal, Role, parse_mapping
from config.settings.servers import ServerSettings

SERVICE_ALGORITHMS = frozenset("RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA".split())
"""Signatures by a private key; with HMAC each service that checks a token could also make one."""
MIN_SECRET_CHARS, MAX_SECRET_CHARS = 32, 512
DEFAULT_KEY_ID = "default"
"""The id of a key that is configured without one."""
KEY_ID = r"[A-Za-z0-9._-]{1,64}"
"""The form of a key's id."""
_SECRET = re.compile(rf"[!-+\--9;-~]{{{MIN_SECRET_CHARS},{MAX_SECRET_CHARS}}}")
"""Printable ASCII without a space, a comma and a colon."""


class CallerSettings(ServerSettings):
    """Part of ``Settings``."""

    tenant: str = Field(default="default", pattern=rf"^{NAME}$")
    """The tenant that the terminal and Python programs act in, and a web process without authentication."""
    principal: str = Field(default="local", pattern=rf"^{NAME}$")
    """The principal that they act as; it has every role of its tenant."""
    auth: Literal["none", "local", "required"] = "none"
    """Which requests need a credential: none; all, and the installation's own token is one; all."""
    disabled_principal: Literal["wait", "fail"] = "wait"
    """What becomes of a disabled principal's runs when a worker takes them: they wait until it is enabled, or fail."""
    no_auth: bool = False
    """Serve an address other than loopback without authentication."""

    @property
    def serves_others(self) -> bool:
        """Whether other machines may be served: each of their requests is authenticated, or none has to be."""
        return self.no_auth or self.auth == "required"

    @property
    def local_principal(self) -> Principal:
        """Who acts where no credential is asked for, with every role of its tenant."""
        return Principal(tenant=self.tenant, id=self.principal, roles=frozenset(Role))

    def is_local(self, principal: Principal) -> bool:
        """Return whether a principal has the name of the local one; no issuer and no API key may give it."""
        return self.is_local_name(principal.tenant, principal.id)

    def is_local_name(self, tenant: str, principal_id: str) -> bool:
        """Return whether these are the tenant and the name of the local principal."""
        return (tenant, principal_id) == (self.tenant, self.principal)

    # --- sessions, and sign-in by OpenID Connect

    oidc_issuer: str | None = None
    """URL of the OpenID Connect provider that people sign in with, exactly as its tokens write it. None: no sign-in."""
    oidc_client_id: str = ""
    """What the provider calls this deployment."""
    oidc_client_secret: SecretStr | None = None
    """The client's secret at the provider; None: a public client, protected by PKCE alone."""
    oidc_scopes: str = "openid profile email"
    """Scopes that are asked for, with spaces between them; ``openid`` is always one."""
    oidc_principal_claim: str = Field(default="sub", min_length=1)
    """The claim that names the principal. Others than ``sub`` may change, and may be given to another person later."""
    oidc_tenant_claim: str = ""
    """The claim that names the tenant; empty: all are in ``tenant``."""
    oidc_roles_claim: str = Field(default="groups", min_length=1)
    """The claim that has the person's groups; dots lead into objects (``realm_access.roles``)."""
    oidc_roles: str = ""
    """The role that each group gives, such as ``ops=operator,admins=admin``; others give none."""
    oidc_groups: str = ""
    """Comma-separated groups of which a person has to be in one to sign in; empty: all that the provider knows may."""
    session_idle_s: int = Field(default=12 * 3600, ge=60)
    """Seconds after its last use that a session ends."""
    session_max_s: int = Field(default=7 * 24 * 3600, ge=60)
    """Seconds after the sign-in that a session ends."""

    @field_validator("oidc_issuer", "oidc_client_secret", mode="before")
    @classmethod
    def _no_sign_in_is_unset(cls, value: object) -> object:
        return value or None

    @field_validator("oidc_issuer")
    @classmethod
    def _is_issuer(cls, value: str | None) -> str | None:
        parts = urlsplit(value or "https://none")
        is_secure = parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(parts.hostname or ""))
        if not is_secure or not parts.hostname or parts.query or parts.fragment or parts.username:
            raise ValueError(
                "it has to be an https:// URL without a query, such as https://login.example.org/realms/staff; "
                "http:// is possible on this machine only"
            )
        return value

    @field_validator("oidc_roles")
    @classmethod
    def _is_mapping(cls, value: str) -> str:
        parse_mapping(value)
        return value

    @model_validator(mode="after")
    def _sign_in_is_whole(self) -> Self:
        if self.oidc_issuer is not None and not self.oidc_client_id:
            raise ValueError("CALLBOARD_OIDC_ISSUER needs CALLBOARD_OIDC_CLIENT_ID; set that too")
        if self.oidc_issuer is not None and self.auth != "required":
            raise ValueError(
                f"CALLBOARD_OIDC_ISSUER has no effect with CALLBOARD_AUTH={self.auth}; set that to required"
            )
        return self

    @property
    def oidc_scope_list(self) -> list[str]:
        """The scopes, with ``openid`` first."""
        return list(dict.fromkeys(["openid", *self.oidc_scopes.split()]))

    @property
    def oidc_group_list(self) -> list[str]:
        """The groups of which a person has to be in one."""
        return listed(self.oidc_groups)

    # --- tokens of services

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

    # --- signed envelopes

    envelope_keys: SecretStr | None = None
    """Keys that sign envelopes: ``id:secret``, ``,`` between them; a secret alone has the id ``default``. None: no
    envelope is valid."""
    require_envelope: bool = False
    """Whether `POST /execute` and calls over MCP need an envelope; one that is sent has to be valid either way."""
    envelope_audience: str = Field(default="", pattern=r"^[!-~]{0,200}$")
    """What the audience of envelopes begins with, before ``/`` and the caller's tenant; empty: ``deployment``."""

    @field_validator("envelope_keys", mode="before")
    @classmethod
    def _no_keys_are_unset(cls, value: object) -> object:
        return value or None

    @model_validator(mode="after")
    def _envelopes_can_be_verified(self) -> Self:
        try:
            keys = self.envelope_key_map
        except ValueError as error:
            raise ValueError(f"CALLBOARD_ENVELOPE_KEYS (or MCP_ENVELOPE_HMAC_SECRET) cannot be used: {error}") from None
        if self.require_envelope and not keys:
            raise ValueError(
                "CALLBOARD_REQUIRE_ENVELOPE needs CALLBOARD_ENVELOPE_KEYS, without which every call would be refused; "
                "set that too"
            )
        return self

    @property
    def envelope_key_map(self) -> Mapping[str, bytes]:
        """The keys that sign envelopes, by their ids."""
        return {} if self.envelope_keys is None else parse_keys(self.envelope_keys.get_secret_value())

    def envelope_audience_of(self, tenant: str) -> str:
        """Return the audience of the envelopes of a tenant's callers."""
        return f"{self.envelope_audience or self.deployment}/{tenant}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def parse_keys(text: str) -> Mapping[str, bytes]:
    """Return the keys of a setting by their ids: ``id:secret``, ``,`` between them.

    A secret alone is the key ``default``. The error repeats nothing of a secret.

    Raises:
        ValueError: a key has not this form, is too short, or two have one id.
    """
    keys: dict[str, bytes] = {}
    for part in text.split(","):
        key_id, colon, secret = part.strip().partition(":")
        if not colon:
            key_id, secret = DEFAULT_KEY_ID, key_id
        if not re.fullmatch(KEY_ID, key_id):
            raise ValueError("the id of a key, before its ':', has to be 1 to 64 letters, digits, '.', '_' and '-'")
        if not _SECRET.fullmatch(secret):
            raise ValueError(
                f"the secret of a key has to be {MIN_SECRET_CHARS} to {MAX_SECRET_CHARS} printable ASCII characters "
                "without spaces, ',' and ':', such as `openssl rand -hex 32` makes"
            )
        if key_id in keys:
            raise ValueError(f"two keys have the id '{key_id}'; give each its own, as id:secret")
        keys[key_id] = secret.encode()
    return keys
