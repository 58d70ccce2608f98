"""Error texts without the keys some providers repeat in them, also those of a form nobody knows."""

from __future__ import annotations

from config import redaction

_SHORTEST = 6
"""Characters of a key that is looked for by itself; anything shorter would be found in ordinary words."""


def redact(text: str, *secrets: str | None) -> str:
    """Return ``text`` with ``secrets``, and whatever has the form of a key, replaced."""
    for secret in secrets:
        if secret and len(secret) >= _SHORTEST:
            text = text.replace(secret, "[redacted]")
    return redaction.redact(text)
