"""The settings of signed envelopes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from pydantic import Field, SecretStr, field_validator, model_validator

from config.identity.envelope import parse_keys
from config.settings.servers import ServerSettings


class EnvelopeSettings(ServerSettings):
    """Part of ``Settings``."""

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
