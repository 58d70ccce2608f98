"""TLS of the web process: a context made of the configured files, and sentences about files that cannot be used."""

from __future__ import annotations

import ssl
import stat
from pathlib import Path

from config.errors import SettingInvalid
from config.settings import ROOT, Settings

ENCRYPTED = "ENCRYPTED"
"""A part of the first line of every encrypted key in PEM."""


def server_context(settings: Settings) -> ssl.SSLContext | None:
    """Return the context in which the web process serves TLS 1.3, or None if it serves plain HTTP.

    Raises:
        SettingInvalid: a file is missing, cannot be read, or does not fit the others; the message names the setting.
    """
    if settings.tls_certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols(["http/1.1"])
    _load_certificate(context, settings)
    if settings.tls_client_ca is not None:
        _load_client_ca(context, settings)
    return context


def tls_files(settings: Settings) -> list[Path]:
    """Return the files that a context is made of, absolute."""
    named = (settings.tls_certificate, settings.tls_key, settings.tls_client_ca)
    return [ROOT / path for path in named if path is not None]


def key_file(settings: Settings) -> Path:
    """Return the file that has the private key."""
    return ROOT / (settings.tls_key or settings.tls_certificate or "")


def _load_certificate(context: ssl.SSLContext, settings: Settings) -> None:
    certificate, key = ROOT / (settings.tls_certificate or ""), key_file(settings)
    key_setting = "TLS_KEY" if settings.tls_key else "TLS_CERTIFICATE"
    _read("TLS_CERTIFICATE", certificate)
    text = _read(key_setting, key)
    if not settings.tls_key and "PRIVATE KEY-----" not in text:
        raise SettingInvalid(f"{certificate} has a certificate and no key; name the key's file in CALLBOARD_TLS_KEY.")
    if ENCRYPTED in text:  # OpenSSL would ask for the password on the terminal
        raise SettingInvalid(
            f"the key in {key} is encrypted; decrypt it into a file that only this user can read "
            f"(openssl pkey -in {key.name} -out server.key) and set CALLBOARD_TLS_KEY to that."
        )
    if key.stat().st_mode & stat.S_IRWXO:
        raise SettingInvalid(f"every user of this machine can read the key in {key}; `chmod o= {key}`.")
    try:
        context.load_cert_chain(certificate, key)
    except ssl.SSLError as error:
        raise _unusable(error, certificate, key, key_setting) from error


def _unusable(error: ssl.SSLError, certificate: Path, key: Path, key_setting: str) -> SettingInvalid:
    if error.reason == "KEY_VALUES_MISMATCH":
        return SettingInvalid(
            f"the key in {key} belongs to another certificate than the first one in {certificate}; name a pair in "
            "CALLBOARD_TLS_CERTIFICATE and CALLBOARD_TLS_KEY."
        )
    return SettingInvalid(
        f"{certificate} and {key} are not a certificate and a key in PEM form ({error.reason or error}); correct "
        f"CALLBOARD_TLS_CERTIFICATE and CALLBOARD_{key_setting}."
    )


def _load_client_ca(context: ssl.SSLContext, settings: Settings) -> None:
    path = ROOT / (settings.tls_client_ca or "")
    text = _read("TLS_CLIENT_CA", path)
    try:
        context.load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError) as error:
        raise SettingInvalid(f"CALLBOARD_TLS_CLIENT_CA: {path} has no certificate in PEM form; name a CA's.") from error
    is_required = settings.tls_client_certificates == "required"
    context.verify_mode = ssl.CERT_REQUIRED if is_required else ssl.CERT_OPTIONAL
    context.num_tickets = 0  # a resumed session would not check the client's certificate again


def _read(setting: str, path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError as error:
        problem = "does not exist" if isinstance(error, FileNotFoundError) else f"cannot be read ({error.strerror})"
        raise SettingInvalid(
            f"{path} of CALLBOARD_{setting} {problem}; correct the path or its permissions."
        ) from error
