"""Refuses secrets in a request's address, which proxies, browsers and logs keep."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote_plus

from web.errors import SecretInAddress

NAMED = re.compile(r"(?:^|[&;])(?:api[_-]?key|access[_-]?token|auth[_-]?token|id[_-]?token|token)=", re.IGNORECASE)
SECRET = re.compile(r"cb[kls]_[0-9A-Za-z_]{16,}")


def require_no_secret(environ: Mapping[str, Any]) -> None:
    """Return if neither path nor query has a key or a token.

    Raises:
        SecretInAddress: it has one, or a parameter named like one; the message does not repeat it.
    """
    query = environ.get("QUERY_STRING", "")
    if query:
        query = unquote_plus(query) if "%" in query else query
        if NAMED.search(query) or SECRET.search(query):
            raise SecretInAddress
    if SECRET.search(environ.get("PATH_INFO", "")):
        raise SecretInAddress
