"""Credentials: what a request was authenticated with, and for whom."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

import orjson

from config.identity.principal import Principal, Role, Verb


class CredentialKind(StrEnum):
    """How a caller was authenticated."""

    KEY = "key"
    """An API key; the credential's id is the key's."""
    SERVICE = "service"
    """A token of the configured issuer, for another service; it has no id."""
    SESSION = "session"
    """A person's session in a browser."""
    CERTIFICATE = "certificate"
    """A client certificate; the credential's id is the name in it that a rule names."""
    WEBHOOK = "webhook"
    """The signature of a webhook's delivery; the credential's id is the webhook's name."""
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


def to_json(caller: Caller) -> str:
    """Return a caller as JSON, for a table."""
    return orjson.dumps(
        {"principal": _sorted(asdict(caller.principal)), "credential": asdict(caller.credential)}
    ).decode()


def from_json(text: str) -> Caller:
    """Return the caller that ``to_json`` wrote. A role or verb that this code does not know grants nothing."""
    stored = orjson.loads(text)
    facts, credential = stored["principal"], stored["credential"]
    principal = Principal(
        tenant=facts["tenant"],
        id=facts["id"],
        roles=frozenset(Role(role) for role in facts["roles"] if role in set(Role)),
        verbs=frozenset(Verb(verb) for verb in facts["verbs"] if verb in set(Verb)),
        agents=None if facts["agents"] is None else frozenset(facts["agents"]),
    )
    kind = CredentialKind(credential.pop("kind"))
    return Caller(principal=principal, credential=Credential(kind=kind, **credential))


def _sorted(facts: dict[str, Any]) -> dict[str, Any]:
    return {name: sorted(value) if isinstance(value, frozenset) else value for name, value in facts.items()}
