"""Which hosts, ports and addresses may be asked: a list of names and networks, and what is public."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_network

from config.egress.addresses import Address, is_public, is_risky
from config.egress.errors import HostNotAllowed, UrlRefused
from config.egress.origins import listed
from config.egress.target import Target, host_name

_ENTRY = re.compile(r"(?:\[([0-9A-Fa-f:./]{2,60})\]|([^:\[\]]{1,253}))(?::([0-9]{1,5}))?")
_OTHER_PROTOCOLS = frozenset(
    {1719, 1720, 1723, 2049, 3306, 3659, 4045, 4190, 5060, 5061, 5432, 5672, 6000, 6379, 6566, 6667, 6697}
    | {10080, 11211, 27017, *range(6665, 6670)}
)
"""Ports of servers that read something else than HTTP: those that browsers refuse, databases, caches and brokers."""
MANY_ADDRESSES = 32
"""Addresses of one name that are looked at; a name with more is refused."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Allowed:
    """An entry of the list: names, or a network, and perhaps one port of them."""

    name: str = ""
    """A name; ``*.example.org`` for all names below one; ``*`` for all public hosts."""
    network: IPv4Network | IPv6Network | None = None
    port: int | None = None
    """None: the ports of HTTP servers."""

    def has_host(self, target: Target) -> bool:
        if self.network is not None:
            return target.address is not None and self.has_address(target.address)
        if self.name.startswith("*."):
            return target.address is None and target.host.endswith(self.name[1:])
        return self.name in ("*", target.host)

    def has_port(self, port: int) -> bool:
        return port == self.port if self.port is not None else is_http_port(port)

    def has_address(self, address: Address) -> bool:
        if self.network is None or address not in self.network:
            return False
        return self.network.num_addresses == 1 or not is_risky(address)


PUBLIC = (Allowed(name="*"),)


@dataclass(frozen=True, kw_only=True, slots=True)
class EgressPolicy:
    """What may be asked. By default every public host, on the ports of HTTP servers."""

    allowed: Sequence[Allowed] = PUBLIC
    within: Sequence[Sequence[Allowed]] = ()
    """Further lists, such as a tenant's and a tool's: each has to have the host and the port too."""
    remedy: str = "Ask for another address, or have the operator allow this one."
    """The last sentence of a refusal."""

    def require_target(self, target: Target) -> None:
        """Return if the host may be looked up, and an address among the public ones or the list asked.

        A name is refused before it is looked up, so that a query for it tells nothing to its name server.

        Raises:
            HostNotAllowed: the list does not have it, or not this port of it.
        """
        if target.address is not None:
            self.require_addresses(target, [target.address])
        for entries in (self.allowed, *self.within):
            of_host = [entry for entry in entries if entry.has_host(target)]
            if not of_host:
                raise HostNotAllowed(f"{target.host} is not among the allowed hosts. {self.remedy}")
            if not any(entry.has_port(target.port) for entry in of_host):
                raise HostNotAllowed(f"port {target.port} of {target.host} is not allowed. {self.remedy}")

    def require_addresses(self, target: Target, addresses: Sequence[Address]) -> None:
        """Return if every one of a host's addresses is public, or in a network of the list.

        Raises:
            HostNotAllowed: one is not; the message does not say which.
        """
        is_allowed = 0 < len(addresses) <= MANY_ADDRESSES and all(self._has(target, address) for address in addresses)
        if not is_allowed:
            raise HostNotAllowed(f"{target.host} is not a public host. {self.remedy}")

    def _has(self, target: Target, address: Address) -> bool:
        if is_public(address):
            return True
        return any(entry.has_address(address) and entry.port in (None, target.port) for entry in self.allowed)


def is_http_port(port: int) -> bool:
    """Return whether HTTP servers use the port, as far as its number tells."""
    return port in (80, 443) or (port >= 1024 and port not in _OTHER_PROTOCOLS)


@lru_cache(maxsize=16)
def allowed_in(text: str) -> tuple[Allowed, ...]:
    """Return the entries of a comma-separated list; every public host where it is empty.

    Raises:
        ValueError: an entry is neither a name nor a network.
    """
    return tuple(_entry(part) for part in listed(text)) or PUBLIC


def hosts_in(parts: Iterable[str]) -> tuple[Allowed, ...]:
    """Return these entries; where there are none, no host is allowed.

    Raises:
        ValueError: one is neither a name nor a network.
    """
    return tuple(_entry(part.strip()) for part in parts)


def _entry(part: str) -> Allowed:
    match = _ENTRY.fullmatch(part)
    text, port = (match[1] or match[2], match[3]) if match else (part, None)
    if port is not None and not 1 <= int(port) <= 65535:
        raise ValueError(f"'{part[:60]}' has a port that does not exist; ports are 1 to 65535")
    number = None if port is None else int(port)
    try:
        return Allowed(network=ip_network(text), port=number)
    except ValueError:
        pass
    try:
        return Allowed(name=_name(text), port=number)
    except UrlRefused:
        raise ValueError(
            f"'{part[:60]}' is not a host; write example.org, *.example.org, * for every public host, 10.0.0.0/8, or "
            "fd00::/8, each with the port if it is one only: example.org:8443, [fd00::7]:8443"
        ) from None


def _name(text: str) -> str:
    if text == "*":
        return text
    below = text.startswith("*.")
    name = host_name(text[2:] if below else text)
    if name.replace(".", "").isdigit():
        raise UrlRefused("it looks like an address, and is none")
    return f"*.{name}" if below else name
