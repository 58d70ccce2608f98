"""Which tokens of a login this process redacts: the newest, and those before them that may still be used.

A worker that lives for months renews thousands of tokens, and each text is searched for every value that is redacted.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

from config.forks import after_fork
from config.redaction import set_secrets

KEPT = 2
"""Tokens of a login that are redacted even if they have expired: requests with the one before may be under way."""
MAX_KEPT = 8
"""Tokens of a login that are redacted, however many are still valid."""


class _Issued(NamedTuple):
    token: str
    secrets: frozenset[str]
    expires_ms: int | None


_lock = threading.Lock()
_issued: dict[str, tuple[_Issued, ...]] = {}
"""Whose tokens they are -> the tokens, the newest last."""


@after_fork
def _renew() -> None:
    global _lock
    _lock = threading.Lock()


def redact_issued(place: str, token: str, secrets: frozenset[str], expires_ms: int | None, now_ms: int) -> None:
    """Have the secrets that came with an access token redacted, and no longer those of tokens that have expired.

    ``place`` is whose tokens they are; ``expires_ms`` is None where the server does not say, which counts as valid. A
    token that is known already becomes the newest.
    """
    with _lock:
        before = [one for one in _issued.get(place, ()) if one.token != token]
        known = [*before, _Issued(token, secrets, expires_ms)][-MAX_KEPT:]
        valid = [one for one in known[:-KEPT] if one.expires_ms is None or now_ms < one.expires_ms]
        _issued[place] = (*valid, *known[-KEPT:])
        set_secrets(place, {secret for one in _issued[place] for secret in one.secrets})
