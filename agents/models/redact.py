"""Error texts without the keys some providers repeat in them."""

from __future__ import annotations

import re

_SECRETS = re.compile(
    r"\b(?:sk|pk|rk|gsk|xai|hf|key|tgp|fw)[-_][A-Za-z0-9_\-]{8,}"
    r"|\bAIza[A-Za-z0-9_\-]{10,}"
    r"|(?i:\bbearer\s+)[A-Za-z0-9._\-+/=]{8,}"
    r"|(?i:(?<=[?&]key=))[^&\s\"']+"
)


def redact(text: str, *secrets: str | None) -> str:
    """Return ``text`` with ``secrets``, and whatever has the form of a key, as ``***``."""
    for secret in secrets:
        if secret and len(secret) >= 6:
            text = text.replace(secret, "***")
    return _SECRETS.sub("***", text)
