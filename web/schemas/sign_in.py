"""Sign-in, and who is signed in."""

from __future__ import annotations

from typing import Literal

from config.identity.credential import CredentialKind
from config.identity.principal import Role
from web.calls.fields import Answer, Maybe


class WaysToSignIn(Answer):
    """What this deployment asks for."""

    auth: Literal["none", "local", "required"]
    """Which requests need a credential: none, or all; ``local``: the installation's own token is one."""
    provider: Maybe[str] = None
    """The host of the identity provider; absent: there is no sign-in."""


class SignInBegun(Answer):
    """A sign-in that this browser began."""

    authorization_url: str
    """Where the reader signs in; it leads back to ``/auth/callback``."""
    state: str
    """What the provider has to send back."""


class SignedIn(Answer):
    """A session, whose cookie comes with this answer."""

    csrf_token: str
    """The header ``X-CSRF-Token`` of requests that change something."""
    expires_at: str


class SignedOut(Answer):
    """The session has ended."""

    provider_url: Maybe[str] = None
    """Where the reader can end the session at the identity provider, too."""


class Me(Answer):
    """The caller."""

    tenant: str
    principal: str
    roles: list[Role]
    credential: CredentialKind
    expires_at: Maybe[str] = None
    """When the credential ends; absent: it does not end by itself."""
    display_name: Maybe[str] = None
    """How the identity provider calls the person."""
