"""A provider's address for messages, without credentials."""

from __future__ import annotations

from urllib.parse import urlsplit


def address_of(url: str | None, model: str) -> str:
    """Return scheme, host and path without credentials or query, or the provider's name where there is no URL."""
    if not url:
        return f"the provider '{model.partition('/')[0]}'"
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return url.partition("?")[0][:80]
    return f"{parts.scheme}://{parts.hostname}{port}{parts.path}" if parts.hostname else url[:80]
