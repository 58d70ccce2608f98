"""The settings of sessions and of sign-in by OpenID Connect."""

from __future__ import annotations

import ipaddress
from typing import Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from config.egress.origins import listed
from config.identity.role_mapping import parse_mapping
from config.settings.callers import CallerSettings


class SignInSettings(CallerSettings):
    """Part of ``Settings``."""

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


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
