"""How Callboard gets access tokens for an MCP server that is reached by HTTP: the file's ``oauth``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from config.definitions.runner_spec import Address, Strict
from config.definitions.secrets import REFERENCE, REFERENCE_FORM, required_secret

_SCOPES = r"^[!#-\[\]-~]+( [!#-\[\]-~]+)*$"
"""RFC 6749, section 3.3."""
_Reference = Annotated[str, Field(max_length=600)]


class McpOAuthFields(Strict):
    """The fields of ``oauth``."""

    grant: Literal["authorization_code", "client_credentials"] = "authorization_code"
    """``authorization_code``: a person signs in by ``./callboard mcp login``; ``client_credentials``: the worker signs
    in itself, as a registered client."""
    issuer: Address | None = None
    """The authorization server's issuer: no other one is used. Required with ``client_secret`` or ``private_key``."""
    client_id: Annotated[str, Field(min_length=1, max_length=500)] | None = None
    """Of a registered client; without it the client is registered at each login."""
    client_secret: _Reference | None = None
    """Where the worker finds the client's secret."""
    private_key: _Reference | None = None
    """Where the worker finds the client's key in PEM, with which it signs in place of a secret."""
    signing_algorithm: Literal["RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA"] = "RS256"
    """Of ``private_key``."""
    client_metadata_url: Address | None = None
    """Where the client's metadata are published, which is its id at servers that support it."""
    scope: Annotated[str, Field(pattern=_SCOPES, max_length=1000)] | None = None
    """The scopes that are asked for, with spaces between them; by default those that the server names."""
    redirect_port: Annotated[int, Field(strict=True, ge=0, le=65535)] = 0
    """The port of this machine to which the browser comes back; 0 is a free one."""

    @field_validator("client_secret", "private_key")
    @classmethod
    def _is_a_reference(cls, value: str | None) -> str | None:
        if value is not None and not REFERENCE.fullmatch(value):
            raise ValueError(f"has to be {REFERENCE_FORM}, and never the secret itself")
        return value

    @model_validator(mode="after")
    def _agree(self) -> McpOAuthFields:
        for problem in self._disagreements():
            raise ValueError(problem)
        return self

    def _disagreements(self) -> Iterator[str]:
        proof = self.client_secret or self.private_key
        if self.client_secret and self.private_key:
            yield "`private_key` is in place of `client_secret`; keep one"
        if proof and not self.client_id:
            yield "`client_id` is missing, to which the secret or key belongs"
        if proof and not self.issuer:
            yield "`issuer` is missing: without it the MCP server would decide who gets the client's secret"
        if self.grant == "client_credentials" and not proof:
            yield "`client_secret` or `private_key` is missing, with which the client proves who it is"
        if self.grant == "authorization_code" and self.private_key:
            yield "`private_key` is for `grant: client_credentials`"
        if self.client_metadata_url and (self.client_id or not self.client_metadata_url.startswith("https://")):
            yield "`client_metadata_url` has to begin with https://, and is in place of `client_id`"

    @property
    def needs_login(self) -> bool:
        """Whether a person has to sign in."""
        return self.grant == "authorization_code"

    def secret_values(self) -> dict[str, str]:
        """Return the secrets by field.

        Raises:
            SECRET_MISSING: a reference leads to nothing.
        """
        named = {"client_secret": self.client_secret, "private_key": self.private_key}
        return {name: required_secret(name, reference) for name, reference in named.items() if reference is not None}
