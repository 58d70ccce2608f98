"""API keys and tickets."""

from __future__ import annotations

from config.identity.principal import Role, Verb
from web.calls.fields import Answer, Maybe


class Key(Answer):
    """An API key, without its secret part."""

    id: str
    name: str
    """The principal that it acts as."""
    tenant: str
    roles: list[Role]
    verbs: Maybe[list[Verb]] = None
    """What it may be used for; absent: everything that its roles allow."""
    agents: Maybe[list[str]] = None
    """The agents that it may be used for; absent: all."""
    created_by: str
    created_at: str
    expires_at: Maybe[str] = None
    """When it ends by itself."""
    used_at: Maybe[str] = None
    """Its last use, to the minute."""
    revoked_at: Maybe[str] = None


class NewKey(Key):
    """A key that was created."""

    key: str
    """The key itself; it is shown only now."""


class KeyPage(Answer):
    """A page of the keys of the caller's tenant, the newest first."""

    keys: list[Key]
    next: Maybe[str] = None
    """Where the next page begins; absent on the last one."""


class Ticket(Answer):
    """What opens the events of one run, once."""

    ticket: str
    expires_at: str
    """When it can no longer be used, UTC."""
    url: str
    """The address of the run's events with the ticket."""
