"""A Redis URL in the two spellings that are about: redis-py's and kombu's."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

UNIX = "unix"
KOMBU_UNIX = "redis+socket"


def socket_url(socket: Path, db: int = 0) -> str:
    """Return the URL of a Redis that listens on a unix socket, as redis-py reads it."""
    return f"{UNIX}://{quote(str(socket))}?db={db}"


def socket_of(url: str) -> Path | None:
    """Return the unix socket a URL names, or None when it names a TCP address."""
    parts = urlsplit(url)
    return Path(unquote(parts.path)) if parts.scheme in (UNIX, KOMBU_UNIX) else None


def broker_form(url: str) -> str:
    """Return the URL as Celery's broker setting wants it; only unix sockets are spelt differently there.

    redis-py reads ``unix:///run/bus.sock?db=0``, kombu ``redis+socket:///run/bus.sock?virtual_host=0``.
    """
    parts = urlsplit(url)
    if parts.scheme != UNIX:
        return url
    query = dict(parse_qsl(parts.query))
    query["virtual_host"] = query.pop("db", "0")
    credentials = f"{parts.netloc}" if "@" in parts.netloc else ""
    return f"{KOMBU_UNIX}://{credentials}{parts.path}?{urlencode(query)}"


def without_password(url: str) -> str:
    """Return the URL fit to be shown: the password is ``***``."""
    parts = urlsplit(url)
    if parts.password is None:
        return url
    user, _, host = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{user.partition(':')[0]}:***@{host}").geturl()
