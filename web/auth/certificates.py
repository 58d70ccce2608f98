"""Client certificates: who has proved, in the TLS handshake, to be the holder of one."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

from config.identity.certificates import principals_in
from config.identity.credential import Caller, Credential, CredentialKind
from web.auth.disabled import DisabledPrincipals
from web.cors import is_foreign
from web.process import WebProcess
from web.server.tls_socket import TlsSocket


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
        found = self._principals.principal_of(certificate) if certificate is not None else None
        if certificate is None or found is None or self._disabled.has(found.principal):
            return None
        expires_ms = ssl.cert_time_to_seconds(certificate["notAfter"]) * 1000
        credential = Credential(kind=CredentialKind.CERTIFICATE, id=found.name, expires_ms=expires_ms)
        return Caller(principal=found.principal, credential=credential)


def certificate_of(environ: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the verified client certificate of a request's connection. No header can name one."""
    lent = environ.get("gunicorn.socket")
    return lent.client_certificate() if isinstance(lent, TlsSocket) else None
