"""Redaction: secrets in logs, events, error texts and data are replaced by ``[redacted]``."""

from config.redaction.redactor import (
    PATTERNS,
    REDACTED,
    Redactor,
    forget,
    has_jwt,
    is_secret,
    own_redactor,
    redact,
    redact_start,
    register_secrets,
    secrets_in_url,
    set_secrets,
)

__all__ = [
    "PATTERNS",
    "REDACTED",
    "Redactor",
    "forget",
    "has_jwt",
    "is_secret",
    "own_redactor",
    "redact",
    "redact_start",
    "register_secrets",
    "secrets_in_url",
    "set_secrets",
]
