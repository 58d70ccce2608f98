"""Origins of pages, and the addresses of proxies, as settings write them."""

from __future__ import annotations

import re
from contextlib import suppress
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
ORIGIN = re.compile(
    rf"(https?)://({_LABEL}(?:\.{_LABEL})*|\[[0-9a-f:.]{{2,45}}\])(?::([1-9][0-9]{{0,4}}))?", re.IGNORECASE
)
DEFAULT_PORTS = {"http": 80, "https": 443}
UNIX = "unix"
"""What names the peers of unix sockets among addresses."""


def origin_of(text: str) -> str:
    """Return an origin as browsers write it: in small letters, without its scheme's default port.

    Raises:
        ValueError: it is none, or has more, such as a path.
    """
    if not ORIGIN.fullmatch(text):
        raise ValueError("it has to be an origin without a path, such as https://callboard.example.org")
    parts = urlsplit(text.lower())
    host, port = parts.netloc.removesuffix(f":{parts.port}"), parts.port
    return f"{parts.scheme}://{host}" + (f":{port}" if port not in (None, DEFAULT_PORTS[parts.scheme]) else "")


def is_origin(text: str) -> bool:
    """Return whether this is an origin as browsers write it."""
    try:
        return origin_of(text) == text
    except ValueError:
        return False


def host_of(origin: str) -> str:
    """Return the host of an origin without its port, IPv6 addresses in brackets."""
    match = ORIGIN.fullmatch(origin)
    return match[2].lower() if match else ""


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches the host."""
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return host == "localhost"


def networks_in(text: str) -> list[IPv4Network | IPv6Network]:
    """Return the networks of a comma-separated list; an address is a network of one. ``unix`` is none.

    Raises:
        ValueError: a part is neither an address nor a network.
    """
    return [_network(part) for part in listed(text) if part != UNIX]


def address_of_peer(text: str) -> IPv4Address | IPv6Address | None:
    """Return an IP address, an IPv4 one where it came over a socket for both; None if it is none."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def listed(text: str) -> list[str]:
    """Return the parts between commas, without spaces around them and without empty ones."""
    return [part.strip() for part in text.split(",") if part.strip()]


def _network(part: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(part, strict=False)
    except ValueError:
        raise ValueError(
            f"'{part[:60]}' is not an address or a network; write 10.0.0.7, 10.0.0.0/24 or fd00::/64, or unix"
        ) from None
