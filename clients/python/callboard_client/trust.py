"""The authorities whose certificates are trusted, read once a process: reading them takes longer than most calls."""

from __future__ import annotations

import os
import ssl
from functools import lru_cache

import httpx


def trusted() -> ssl.SSLContext:
    """Return what httpx trusts by itself, or what ``SSL_CERT_FILE`` and ``SSL_CERT_DIR`` name; clients share it."""
    return _read(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@lru_cache(maxsize=4)
def _read(file: str | None, folder: str | None) -> ssl.SSLContext:
    """Read them; httpx looks at the two variables itself, whose values are here so that another file is read too."""
    return httpx.create_ssl_context()
