"""Checks of TLS: the files fit each other, and the certificates are valid for some time."""

from __future__ import annotations

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bus.identity.credentials.certificates import require_tls_files
from config.egress.origins import host_of, is_loopback, networks_in
from config.errors import SettingInvalid
from config.settings import ROOT, Settings
from config.tls import key_file
from web.doctor import Judged, Verdicts, fail, ok, warn

RENEW_BEFORE = timedelta(days=14)


def check_tls(settings: Settings, now: datetime | None = None) -> Verdicts:
    """Yield files that cannot be used, certificates that have expired or soon will, and keys that a group can read."""
    yield from _exposure(settings)
    if settings.tls_certificate is None:
        return
    try:
        require_tls_files(settings)
    except SettingInvalid as error:
        yield fail(str(error))
        return
    files = {"TLS_CERTIFICATE": settings.tls_certificate, "TLS_CLIENT_CA": settings.tls_client_ca}
    for name, path in files.items():
        if path is not None:
            yield _validity(name, ROOT / path, now or datetime.now(UTC))
    key = key_file(settings)
    if key.stat().st_mode & stat.S_IRWXG:
        yield warn(
            f"a group can read the key in {key}; `chmod g= {key}`, unless the web process reads it by its group."
        )


def _exposure(settings: Settings) -> Verdicts:
    """Yield what others on the network could read, or forge."""
    public = settings.public_url or ""
    if not (is_loopback(settings.host) or settings.tls_certificate or settings.trusted_proxies):
        yield warn(
            f"CALLBOARD_HOST is {settings.host}, and no TLS is configured: credentials and messages cross the network "
            "in plain text. Set CALLBOARD_TLS_CERTIFICATE, or bind to loopback behind a proxy that ends TLS."
        )
    if public.startswith("http://") and not is_loopback(host_of(public).strip("[]")):
        yield warn(f"CALLBOARD_PUBLIC_URL is {public}: browsers send credentials in plain text. Use https.")
    for network in networks_in(settings.trusted_proxies):
        if network.prefixlen == 0:
            yield fail(
                f"CALLBOARD_TRUSTED_PROXIES has {network}: every client may choose the address and the host that "
                "count. Name the proxies."
            )


def _validity(name: str, path: Path, now: datetime) -> Judged:
    """Judge by the first certificate of the file that ends."""
    from cryptography import x509  # takes 50 ms

    certificates = x509.load_pem_x509_certificates(path.read_bytes())
    until = min(certificate.not_valid_after_utc for certificate in certificates)
    since = max(certificate.not_valid_before_utc for certificate in certificates)
    where = f"CALLBOARD_{name} ({path})"
    if until <= now:
        return fail(f"{where} expired on {until:%Y-%m-%d}: clients refuse it. Renew it; no restart is needed.")
    if since > now:
        return fail(f"{where} is valid from {since:%Y-%m-%d %H:%M} UTC on; correct this machine's clock, or wait.")
    if until - now < RENEW_BEFORE:
        return warn(f"{where} expires on {until:%Y-%m-%d}. Renew it; no restart is needed.")
    return ok(f"{where} is valid until {until:%Y-%m-%d}")
