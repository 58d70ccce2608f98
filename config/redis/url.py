"""Redis URLs in redis-py's and kombu's forms."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlsplit

UNIX = "unix"
KOMBU_UNIX = "redis+socket"
REDIS_SCHEMES = ("redis", "rediss", UNIX)
"""Schemes that redis-py supports."""
_IN_QUERY = re.compile(r"(?i)(\bpassword=)[^&]*")
"""redis-py accepts a password in the query, too."""


def socket_url(socket: Path, db: int = 0) -> str:
    """Return the URL of a Redis on a unix socket, in redis-py's form."""
    return f"{UNIX}://{quote(str(socket))}?db={db}"


def broker_form(url: str) -> str:
    """Return the URL in the form of Celery's broker setting, which differs for unix sockets only.

    redis-py reads ``unix:///run/bus.sock?db=0``, kombu ``redis+socket:///run/bus.sock?virtual_host=0``.
    """
    parts = urlsplit(url)
    if parts.scheme != UNIX:
        return url
    return _unix_form(parts, KOMBU_UNIX, "db", "virtual_host")


def redis_form(url: str) -> str | None:
    """Return a broker's URL in redis-py's form; None if the broker is not a single Redis server."""
    parts = urlsplit(url)
    if parts.scheme not in ("redis", "rediss", UNIX, KOMBU_UNIX) or len(each_url(url)) > 1:
        return None
    if parts.scheme != KOMBU_UNIX:
        return url
    return _unix_form(parts, UNIX, "virtual_host", "db")


def _unix_form(parts: SplitResult, scheme: str, from_name: str, to_name: str) -> str:
    query = dict(parse_qsl(parts.query))
    query[to_name] = query.pop(from_name, "0")
    credentials = parts.netloc if "@" in parts.netloc else ""
    return f"{scheme}://{credentials}{parts.path}?{urlencode(query)}"


def each_url(urls: str) -> list[str]:
    """Return the URLs of a broker setting: kombu accepts several, separated by ``;``, for failover."""
    return re.split(r";(?=[A-Za-z][\w+.-]*://)", urls)


def without_password(url: str) -> str:
    """Return the URL or URLs with each password replaced by ``***``."""
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
