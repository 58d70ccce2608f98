"""Credentials: what a request was authenticated with, and for whom."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from config.identity.principal import Principal


class CredentialKind(StrEnum):
    """How a caller was authenticated."""

    KEY = "key"
    """An API key; the credential's id is the key's."""
    SERVICE = "service"
    """A token of the configured issuer, for another service; it has no id."""
    SESSION = "session"
    """A person's session in a browser."""
    LOCAL = "local"
    """The token of this installation, in its state folder."""
    NONE = "none"
    """Nothing: the installation asks for no credential."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Credential:
    """What a request was authenticated with; never the secret itself."""

    kind: CredentialKind
    id: str = ""
    expires_ms: int | None = None
    """When it ends by itself; None: it does not."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Caller:
    """A principal, and the credential that it was found by.

    A ticket stands for the credential that asked for it, and ends with that one.
    """

    principal: Principal
    credential: Credential
