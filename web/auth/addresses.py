"""Refuses secrets in a request's address, which proxies, browsers and logs keep."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote_plus

from config.redaction import has_jwt
from web.errors import SecretInAddress

NAMED = re.compile(
    r"(?:^|[&;])(?:api[_-]?key|access[_-]?token|auth[_-]?token|id[_-]?token|token|jwt|bearer|authorization)=",
    re.IGNORECASE,
)
SECRET = re.compile(r"cb[kls]_[0-9A-Za-z_]{16,}")
CALLBACK = "/auth/callback"
"""Where identity providers send people with a code, which is a JWT at some of them."""


def require_no_secret(environ: Mapping[str, Any]) -> None:
    """Return if neither path nor query has a key or a token.

    Raises:
        SecretInAddress: it has one, or a parameter named like one; the message does not repeat it.
    """
    query, path = _decoded(environ.get("QUERY_STRING", "")), _decoded(environ.get("PATH_INFO", ""))
    if NAMED.search(query) or any(SECRET.search(text) for text in (query, path)):
        raise SecretInAddress
    if path != CALLBACK and any(has_jwt(text) for text in (query, path)):
        raise SecretInAddress


def _decoded(text: str) -> str:
    """Return a part of an address decoded, also where a client encoded it twice."""
    return unquote_plus(unquote_plus(text)) if "%" in text else text
