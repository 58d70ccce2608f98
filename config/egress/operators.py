"""Addresses that the operator wrote, or a server that the operator trusts: an ``api_base``, an identity provider, JWKS.

They are often private, and often reached through a proxy, so they are not restricted to public hosts, and the client
that asks them resolves their names itself. One thing is refused: the metadata service of a cloud, which gives the
machine's own credentials to any program on it.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable, Sequence

from config.egress.addresses import address_in, is_metadata
from config.egress.errors import HostNotAllowed
from config.egress.lookup import Resolver, resolver_of
from config.egress.policy import Allowed
from config.egress.target import Target, parse_target

LOOKUP_S = 3.0
"""Seconds that a name may take to be looked up; then the client that connects says what is wrong."""
REMEDY = "Correct the address, or list it by number in CALLBOARD_HTTP_ALLOWED_HOSTS if it is meant."


async def require_operators_url(url: str, allowed: Sequence[Allowed] = (), resolver: Resolver | None = None) -> None:
    """Return if the URL leads to no metadata service, or to one that the list has by its number.

    A name that cannot be looked up passes: the client behind a proxy never looks it up either.

    Raises:
        UrlRefused: it is malformed, or in a form that programs read in different ways.
        HostNotAllowed: it leads there.
    """
    target = parse_target(url)
    texts: Sequence[str] = ()
    if target.address is None:
        try:
            async with asyncio.timeout(LOOKUP_S):
                own = resolver or resolver_of(f"the operator's {target.host}")
                texts = await own(target.host, target.port)
        except (OSError, UnicodeError):  # also a lookup that took too long
            return
    _require(target, texts, allowed)


def require_operators_url_here(url: str, allowed: Sequence[Allowed] = ()) -> None:
    """Do the same on a plain thread, which waits for the lookup.

    Raises:
        UrlRefused, HostNotAllowed: as ``require_operators_url``.
    """
    target = parse_target(url)
    try:
        entries = () if target.address is not None else socket.getaddrinfo(target.host, target.port)
    except (OSError, UnicodeError):
        return
    _require(target, [str(entry[4][0]) for entry in entries], allowed)


def _require(target: Target, texts: Iterable[str], allowed: Sequence[Allowed]) -> None:
    candidates = [address_in(text.partition("%")[0]) for text in texts] if target.address is None else [target.address]
    for address in candidates:
        if address is None or not is_metadata(address):
            continue
        if not any(entry.has_address(address) and entry.port in (None, target.port) for entry in allowed):
            raise HostNotAllowed(f"{target.host} is the address of a cloud's metadata service. {REMEDY}")
