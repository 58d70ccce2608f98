"""The settings of signed envelopes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Self

from pydantic import Field, SecretStr, field_validator, model_validator

from config.settings.servers import ServerSettings

MIN_SECRET_CHARS, MAX_SECRET_CHARS = 32, 512
DEFAULT_KEY_ID = "default"
"""The id of a key that is configured without one."""
KEY_ID = r"[A-Za-z0-9._-]{1,64}"
"""The form of a key's id."""
_SECRET = re.compile(rf"[!-+\--9;-~]{{{MIN_SECRET_CHARS},{MAX_SECRET_CHARS}}}")
"""Printable ASCII without a space, a comma and a colon."""


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


def parse_keys(text: str) -> Mapping[str, bytes]:
    """Return the keys of a setting by their ids: ``id:secret``, ``,`` between them.

    A secret alone is the key ``default``. The error repeats nothing of a secret.

    Raises:
        ValueError: a key has not this form, is too short, or two have one id.
    """
    found: dict[str, bytes] = {}
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
        if key_id in found:
            raise ValueError(f"two keys have the id '{key_id}'; give each its own, as id:secret")
        found[key_id] = secret.encode()
    return found
