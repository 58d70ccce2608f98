"""The settings that say who may call, and who acts where no credential is asked for."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from config.identity.principal import NAME, Principal, Role
from config.settings.sources import Part


class CallerSettings(Part):
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
