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
SECRET = re.compile(r"cb[gkls]_[0-9A-Za-z_]{16,}")
MOST_TIMES = 4
"""How many times an address may have been encoded for a secret in it to be found."""
CALLBACK = "/auth/callback"
"""Where identity providers send people with a code, which is a JWT at some of them."""


def require_no_secret(environ: Mapping[str, Any]) -> None:
    """Return if no part of the address has a key or a token.

    The target of the request has what path and query lack: a fragment, which browsers do not send and other clients
    may, and the login of an absolute address.

    Raises:
        SecretInAddress: it has one, or a parameter named like one; the message does not repeat it.
    """
    query, path, target = (_decoded(environ.get(name, "")) for name in ("QUERY_STRING", "PATH_INFO", "RAW_URI"))
    fragment = _decoded(environ.get("RAW_URI", "").partition("#")[2])
    if any(NAMED.search(text) for text in (query, fragment)):
        raise SecretInAddress
    if any(SECRET.search(text) for text in (query, path, target)):
        raise SecretInAddress
    if path != CALLBACK and any(has_jwt(text) for text in (query, path, target)):
        raise SecretInAddress


def _decoded(text: str) -> str:
    """Return a part of an address decoded, also where a client encoded it more than once."""
    for _ in range(MOST_TIMES):
        if "%" not in text:
            break
        text = unquote_plus(text)
    return text
