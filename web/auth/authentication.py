"""Authentication: finds the caller of each request before it is handled."""

from __future__ import annotations

import hmac
import re
import ssl
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

from flask import Flask, current_app, g, request

from bus.identity.access import may_administer
from bus.identity.credentials import key_form
from bus.identity.credentials.certificates import principals_in
from bus.identity.credentials.credential import Caller, Credential, CredentialKind
from bus.identity.credentials.key_form import KeyForm
from bus.identity.credentials.local_token import local_token
from bus.identity.errors import forbidden
from bus.identity.validity import can_end, ended
from config.errors import CallboardError
from config.identity.principal import Principal, Verb
from web.auth.keys import TICKET_ENDPOINT, TICKET_PARAMETER, DisabledPrincipals, KeyVerifier, caller_of_ticket
from web.auth.sessions import SESSION, SessionVerifier, values_in
from web.auth.webhooks import WEBHOOK_ENDPOINT, WebhookCallers
from web.errors import Unauthenticated
from web.process import WebProcess, current_process
from web.security import is_foreign, require_no_secret
from web.server.sockets import TlsSocket

if TYPE_CHECKING:
    from web.auth.service_tokens import ServiceTokens


class CertificateCallers:
    """Finds callers by their certificates; one per process."""

    def __init__(self, process: WebProcess) -> None:
        path = process.settings.tls_principals
        self._principals = principals_in(path) if path is not None else None
        self._disabled = DisabledPrincipals(process)

    def has_one(self, environ: Mapping[str, Any]) -> bool:
        """Return whether the connection has a certificate, and certificates are credentials here."""
        return self._principals is not None and certificate_of(environ) is not None

    def caller(self, environ: Mapping[str, Any]) -> Caller | None:
        """Return whom the connection's certificate stands for; None: it has none, or no rule names it.

        Browsers present a certificate on every request to this server, also on those of foreign pages, so it does not
        count on requests of pages that CORS allows.
        """
        if self._principals is None or is_foreign(environ):
            return None
        certificate = certificate_of(environ)
        principal = self._principals.principal_of(certificate) if certificate is not None else None
        if certificate is None or principal is None or self._disabled.has(principal.principal):
            return None
        expires_ms = ssl.cert_time_to_seconds(certificate["notAfter"]) * 1000
        credential = Credential(kind=CredentialKind.CERTIFICATE, id=principal.name, expires_ms=expires_ms)
        return Caller(principal=principal.principal, credential=credential)


def certificate_of(environ: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the verified client certificate of a request's connection. No header can name one."""
    lent = environ.get("gunicorn.socket")
    return lent.client_certificate() if isinstance(lent, TlsSocket) else None


OPEN_ENDPOINTS = frozenset(
    "page.index page.reference page.icon page.static_file page.callback document.openapi sign_in.ways "
    "sign_in.begin sign_in.finish mcp.metadata".split()
)
"""Endpoints that need no credential: the page, which asks the reader for one, sign-in, descriptions of the calls."""
HEALTH_ENDPOINTS = frozenset({"health.state", "health.ready"})
"""Endpoints that answer strangers too, with less."""
EXTENSION = "callboard_authentication"
SEPARATORS = 2
"""Points of a JWT."""
MAX_TOKEN_CHARS = 8000
BEARER = re.compile(r"(?i:bearer) +([A-Za-z0-9._~+/-]+=*)")


class Authentication:
    """Finds callers by what their requests carry; one per process."""

    def __init__(self, process: WebProcess) -> None:
        self._process = process
        self._settings = settings = process.settings
        self._key_verifier: KeyVerifier | None = None
        self._services = _service_tokens(process) if settings.service_issuer else None
        self._session_verifier: SessionVerifier | None = None
        self._certificates = CertificateCallers(process)
        kind = CredentialKind.NONE if settings.auth == "none" else CredentialKind.LOCAL
        self._local = Caller(principal=settings.local_principal, credential=Credential(kind=kind))

    def caller(self, environ: Mapping[str, Any], ticket: tuple[str, str] | None = None) -> Caller:
        """Return who sends this request; a ticket comes with the run whose events are asked for.

        Raises:
            Unauthenticated: it has no valid credential, and one is required; or one of ours that is not valid.
        """
        header = environ.get("HTTP_AUTHORIZATION", "")
        if ticket is not None and not header:
            caller = caller_of_ticket(self.keys.journal, self.keys.form, *ticket)
            if caller is None:
                raise Unauthenticated
            return caller
        if self._settings.auth == "none" and not self._is_ours(header):  # a proxy's own login passes its header on
            return self._local
        caller = self._of_header(header) if header else self._of_browser(environ)
        if caller is None:
            raise Unauthenticated
        return caller

    def is_anonymous(self, environ: Mapping[str, Any], ticket: tuple[str, str] | None = None) -> bool:
        """Return whether a request carries no credential at all, valid or not, by which a caller could be found."""
        if ticket is not None or "HTTP_AUTHORIZATION" in environ or self._certificates.has_one(environ):
            return False
        if self._settings.oidc_issuer is None or "HTTP_COOKIE" not in environ:
            return True
        return not values_in(environ, SESSION, self.sessions.form, self._settings)

    def _is_ours(self, header: str) -> bool:
        is_token = bool(self._settings.service_issuer) and header.count(".") == SEPARATORS
        return is_token or key_form.PREFIX in header

    def _of_header(self, header: str) -> Caller | None:
        match = BEARER.fullmatch(header) if len(header) <= MAX_TOKEN_CHARS else None
        if match is None:
            return None
        if match[1].startswith(key_form.PREFIX):
            return self.keys.caller(match[1])
        if self._services is not None and match[1].count(".") == SEPARATORS:
            return self._services.caller(match[1])
        return self._of_local_token(match[1])

    def _of_browser(self, environ: Mapping[str, Any]) -> Caller | None:
        """Return the caller of what browsers add to requests by themselves: a cookie, a certificate."""
        if self._settings.oidc_issuer is not None and "HTTP_COOKIE" in environ:
            session = self.sessions.session(environ)
            if session is not None:
                return session.caller
        return self._certificates.caller(environ)

    @property
    def sessions(self) -> SessionVerifier:
        """The sessions, by the journal that this process has now."""
        journal = self._process.journal
        if self._session_verifier is None or self._session_verifier.journal is not journal:
            self._session_verifier = SessionVerifier(journal)
        return self._session_verifier

    @property
    def keys(self) -> KeyVerifier:
        """The API keys, by the journal that this process has now."""
        journal = self._process.journal
        if self._key_verifier is None or self._key_verifier.journal is not journal:
            self._key_verifier = KeyVerifier(journal)
        return self._key_verifier

    def _of_local_token(self, token: str) -> Caller | None:
        if self._settings.auth != "local":
            return None
        return self._local if hmac.compare_digest(token.encode(), self._local_token) else None

    @cached_property
    def _local_token(self) -> bytes:
        return local_token(self._settings).encode()


def _service_tokens(process: WebProcess) -> ServiceTokens:
    from web.auth.service_tokens import ServiceTokens  # imports cryptography, which few installations need

    return ServiceTokens(process)


def register(app: Flask, process: WebProcess) -> None:
    """Set ``g.caller`` before each request is handled, or refuse it; None is a stranger who asks for the health."""
    authentication = app.extensions[EXTENSION] = Authentication(process)
    webhooks = WebhookCallers(process)

    @app.before_request
    def authenticate() -> None:
        require_no_secret(request.environ)
        if request.endpoint in OPEN_ENDPOINTS:
            return
        if request.endpoint == WEBHOOK_ENDPOINT:
            g.caller = webhooks.caller()
            return
        if request.endpoint in HEALTH_ENDPOINTS:
            g.caller = None
            with suppress(CallboardError):  # also when the database is away, whose state is asked for
                g.caller = authentication.caller(request.environ)
            return
        g.caller = authentication.caller(request.environ, _ticket())


def _ticket() -> tuple[str, str] | None:
    """Return the ticket with its run; a HEAD opens no stream, so it does not use one up."""
    if request.method != "GET" or request.endpoint != TICKET_ENDPOINT or TICKET_PARAMETER not in request.args:
        return None
    return request.args[TICKET_PARAMETER], str((request.view_args or {})["run_id"])


def current_authentication() -> Authentication:
    """Return what finds the callers of this process."""
    extension: Authentication = current_app.extensions[EXTENSION]
    return extension


def current_key_form() -> KeyForm:
    """Return what makes the keys and tickets of this deployment, with its secret read."""
    form = current_authentication().keys.form
    form.open()
    return form


def current_caller() -> Caller:
    """Return who sends the request that is being handled."""
    caller: Caller = g.caller
    return caller


def current_principal() -> Principal:
    """Return the principal of the request that is being handled."""
    return current_caller().principal


def require_administrator() -> Principal:
    """Return the principal of the current request if it administers its tenant.

    Raises:
        FORBIDDEN: it does not.
    """
    principal = current_principal()
    if not may_administer(principal):
        raise forbidden(principal, Verb.ADMINISTER, "this tenant")
    return principal


def require_still_valid() -> None:
    """Return if the caller's credential is still valid, after the request has waited for something.

    Raises:
        Unauthenticated: it ended meanwhile.
    """
    caller, process = current_caller(), current_process()
    if can_end(caller) and ended(process.journal.database, [caller], process.settings.tls_principals):
        raise Unauthenticated


def is_anonymous() -> bool:
    """Return whether the request that is being handled carries no credential at all."""
    return current_authentication().is_anonymous(request.environ, _ticket())


def is_stranger() -> bool:
    """Return whether the request that is being handled has no valid credential where one is required."""
    return g.caller is None
