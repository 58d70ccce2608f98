"""Sign-in by OpenID Connect, sign-out, and who is signed in."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlsplit

from flask import Blueprint, Response, request
from pydantic import Field
from sqlalchemy.exc import IntegrityError

from bus.identity.access import require_may_end_sessions
from bus.identity.credentials import sessions as table
from bus.identity.credentials.credential import CredentialKind
from bus.identity.credentials.sessions import Lifetime
from bus.identity.principals import disabled_among
from config.clock import epoch_ms, stamp
from config.identity.principal import Principal, Role
from web.api.answers import answer
from web.auth.authentication import current_authentication, current_caller
from web.auth.sessions import (
    SESSION,
    SIGN_IN,
    SessionVerifier,
    forget_cookie,
    keep_cookie,
    name_of,
    own_origin,
    values_in,
)
from web.calls.call import call
from web.calls.fields import Answer, Input, Maybe
from web.oidc.errors import PROVIDER_UNREACHABLE, SIGN_IN_OFF, SIGN_IN_REFUSED
from web.oidc.sign_in import LIFETIME_MS, Attempt, display_name, principal_of
from web.process import current_process

if TYPE_CHECKING:
    from web.oidc.provider import Provider


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


sign_in = Blueprint("sign_in", __name__)

log = logging.getLogger(__name__)

Short = Annotated[str, Field(max_length=500)]
OVER = "this sign-in is over, or another browser began it; sign in again."
DENIED = "the identity provider did not sign you in; sign in again, or ask its administrator for access."


@sign_in.get("/auth/sign-in")
@call({200: WaysToSignIn})
def ways() -> Response:
    """Return how a reader of the page proves who they are."""
    settings = current_process().settings
    data: dict[str, str] = {"auth": settings.auth}
    if settings.oidc_issuer is not None:
        data["provider"] = urlsplit(settings.oidc_issuer).hostname or ""
    return answer(data)


@sign_in.post("/auth/sign-in")
@call({200: SignInBegun}, problems=(SIGN_IN_OFF, PROVIDER_UNREACHABLE))
def begin() -> Response:
    """Begin a sign-in: a cookie, and where to send the reader.

    The page keeps the state for its own origin and compares it when the reader comes back, since servers on other ports
    of this host could plant the cookie.
    """
    verifier, provider, origin = _sessions(), _provider(), _origin()
    attempt = Attempt.begin(verifier.form, origin, epoch_ms())
    url = provider.authorization_url(attempt, _redirect_uri(origin))
    answered = answer({"authorization_url": url, "state": attempt.state})
    name = name_of(SIGN_IN, verifier.form, origin)
    keep_cookie(answered, name, attempt.text, LIFETIME_MS // 1000)
    return answered


class ProviderAnswer(Input):
    """The parameters with which the identity provider sent the reader back."""

    state: Short
    """That of the sign-in, as this browser began it."""
    code: Maybe[Annotated[str, Field(max_length=4000)]] = None
    """The authorization code, which is exchanged once."""
    iss: Maybe[Short] = None
    """The issuer that answered (RFC 9207)."""
    error: Maybe[Short] = None
    """Why the provider refused."""


@sign_in.post("/auth/callback")
@call({200: SignedIn}, problems=(SIGN_IN_OFF, SIGN_IN_REFUSED, PROVIDER_UNREACHABLE))
def finish(body: ProviderAnswer) -> Response:
    """Finish a sign-in: the answer brings the cookie of a new session and ends the one that the browser had."""
    verifier, provider, origin = _sessions(), _provider(), _origin()
    attempt = _attempt(verifier, origin, body.state)
    if body.error is not None or body.code is None:
        log.info("sign-in refused by the provider: %s", (body.error or "no code")[:100])
        raise SIGN_IN_REFUSED(DENIED)
    if body.iss is not None and body.iss != current_process().settings.oidc_issuer:
        raise SIGN_IN_REFUSED("another identity provider answered this sign-in; sign in again.")
    claims = provider.claims(body.code, attempt, _redirect_uri(origin))
    principal = principal_of(claims, current_process().settings)
    text, expires_ms = _new_session(verifier, attempt, principal, display_name(claims))
    answered = answer({"csrf_token": verifier.form.csrf_token(text), "expires_at": stamp(expires_ms)})
    lasts_s = current_process().settings.session_max_s
    keep_cookie(answered, _cookie(verifier, SESSION), text, lasts_s)
    forget_cookie(answered, _cookie(verifier, SIGN_IN))
    return answered


class SignOut(Input):
    """Which sessions end."""

    everywhere: bool = False
    """Whether all sessions of the principal end, in other browsers too."""


@sign_in.post("/auth/sign-out")
@call({200: SignedOut}, problems=(SIGN_IN_OFF,))
def sign_out(body: SignOut) -> Response:
    """End the session on every web process within a second, with its open streams; other credentials stay."""
    verifier, caller = _sessions(), current_caller()
    if body.everywhere:
        require_may_end_sessions(caller.principal)
    with current_process().journal.database.write() as connection:
        if body.everywhere:
            table.end_all(connection, caller.principal)
        elif caller.credential.kind is CredentialKind.SESSION:
            table.end(connection, caller.credential.id, caller.principal)
    verifier.forget(caller.credential.id)
    url = _provider().sign_out_url(f"{_origin()}/")
    answered = answer({"provider_url": url} if url is not None else {})
    forget_cookie(answered, _cookie(verifier, SESSION))
    return answered


@sign_in.get("/v1/me")
@call({200: Me})
def me() -> Response:
    """Return who the caller is, and with which credential."""
    caller = current_caller()
    principal, credential = caller.principal, caller.credential
    data: dict[str, Any] = {"tenant": principal.tenant, "principal": principal.id, "roles": sorted(principal.roles)}
    data["credential"] = credential.kind
    if credential.expires_ms is not None:
        data["expires_at"] = stamp(credential.expires_ms)
    if credential.kind is CredentialKind.SESSION:
        session = _sessions().session(request.environ)
        data |= {"display_name": session.display_name} if session is not None and session.display_name else {}
    return answer(data)


def _new_session(verifier: SessionVerifier, attempt: Attempt, principal: Principal, label: str) -> tuple[str, int]:
    """Return a new session's cookie and its end."""
    settings = current_process().settings
    session_id, text = verifier.form.make()
    digest, sign_in_digest = verifier.form.digest(text), attempt.digest
    lifetime = Lifetime(idle_ms=settings.session_idle_s * 1000, most_ms=settings.session_max_s * 1000)
    texts = _values(verifier, SESSION)
    before = [old_session for each in texts if (old_session := verifier.session_of(each)) is not None]
    try:
        with current_process().journal.database.write() as connection:
            if disabled_among(connection, [(principal.tenant, principal.id)]):
                raise SIGN_IN_REFUSED("your access to this Callboard is disabled; ask its administrator.")
            expires_ms = table.create(
                connection,
                session_id,
                digest,
                principal,
                sign_in_digest=sign_in_digest,
                display_name=label,
                lifetime=lifetime,
                replaces=before,
            )
    except IntegrityError as error:
        raise SIGN_IN_REFUSED(OVER) from error
    for session in before:
        verifier.forget(session.id)
    return text, expires_ms


def _attempt(verifier: SessionVerifier, origin: str, state: str) -> Attempt:
    """Return the sign-in of this browser that has the state."""
    texts = _values(verifier, SIGN_IN)
    attempts = [Attempt.of_cookie(verifier.form, origin, text, epoch_ms()) for text in texts]
    attempt = next((each for each in attempts if each is not None and each.has(state)), None)
    if attempt is None:
        raise SIGN_IN_REFUSED(OVER)
    return attempt


def _sessions() -> SessionVerifier:
    if current_process().settings.oidc_issuer is None:
        raise SIGN_IN_OFF()
    return current_authentication().sessions


def _provider() -> Provider:
    return current_process().provider


def _origin() -> str:
    return own_origin(request.environ, current_process().settings)


def _redirect_uri(origin: str) -> str:
    return f"{origin}/auth/callback"


def _cookie(verifier: SessionVerifier, kind: str) -> str:
    return name_of(kind, verifier.form, _origin())


def _values(verifier: SessionVerifier, kind: str) -> list[str]:
    return values_in(request.environ, kind, verifier.form, current_process().settings)
