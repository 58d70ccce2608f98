"""A Redis URL in the two spellings that are about: redis-py's and kombu's."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

UNIX = "unix"
KOMBU_UNIX = "redis+socket"
_IN_QUERY = re.compile(r"(?i)(\bpassword=)[^&]*")
"""redis-py reads a password there, too."""


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


def redis_form(url: str) -> str | None:
    """Return a broker's URL as redis-py reads it; None where the broker is no single Redis server."""
    parts = urlsplit(url)
    if parts.scheme not in ("redis", "rediss", UNIX, KOMBU_UNIX) or len(each_url(url)) > 1:
        return None
    if parts.scheme != KOMBU_UNIX:
        return url
    query = dict(parse_qsl(parts.query))
    query["db"] = query.pop("virtual_host", "0")
    credentials = f"{parts.netloc}" if "@" in parts.netloc else ""
    return f"{UNIX}://{credentials}{parts.path}?{urlencode(query)}"


def each_url(urls: str) -> list[str]:
    """Return the URLs of a broker setting one by one: kombu takes several with ``;`` between, to fall back on."""
    return re.split(r";(?=[A-Za-z][\w+.-]*://)", urls)


def without_password(url: str) -> str:
    """Return the URL, or several, fit to be shown: each password is ``***``."""
    return ";".join(_without_password(each) for each in each_url(url))


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    query = _IN_QUERY.sub(r"\1***", parts.query)
    netloc = parts.netloc
    if parts.password is not None:
        user, _, host = netloc.rpartition("@")
        netloc = f"{user.partition(':')[0]}:***@{host}"
    return (
        url if (netloc, query) == (parts.netloc, parts.query) else parts._replace(netloc=netloc, query=query).geturl()
    )
