"""Which IP addresses are public, by IANA's registries of special addresses.

``ipaddress`` cannot decide this: Python 3.11 calls multicast, NAT64 and 6to4 addresses global, and 100.64.0.0/10
neither private nor global.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

Address = IPv4Address | IPv6Address

_SPECIAL_V4 = tuple(
    ip_network(text)
    for text in """
    0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 192.88.99.0/24
    192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4 168.63.129.16/32
    """.split()
)
"""The last one is Azure's metadata service."""
_UNICAST_V6 = ip_network("2000::/3")
"""The only part of IPv6 that has public addresses."""
_SPECIAL_V6 = tuple(ip_network(text) for text in "2001::/23 2001:db8::/32 2002::/16 3fff::/20".split())
"""Within it: Teredo and other protocols, documentation, 6to4."""
_NAT64 = ip_network("64:ff9b::/96")
_RISKY = tuple(
    ip_network(text)
    for text in """
    0.0.0.0/8 169.254.0.0/16 100.100.100.200/32 168.63.129.16/32 224.0.0.0/4 240.0.0.0/4
    ::/128 fe80::/10 fec0::/10 ff00::/8 fd00:ec2::254/128 fd20:ce::254/128
    """.split()
)
"""Metadata services of clouds, link-local addresses, and those that no single server has."""
_METADATA = tuple(
    ip_network(text)
    for text in """
    169.254.0.0/16 100.100.100.200/32 168.63.129.16/32 fd00:ec2::254/128 fd20:ce::254/128 fe80::a9fe:a9fe/128
    """.split()
)
"""Where clouds give credentials of the machine to every program on it."""


def address_in(text: str) -> Address | None:
    """Return the address that a resolver or a URL wrote; None where it is none, or has a zone.

    An IPv4 address that is mapped to IPv6 becomes the IPv4 address, which is what the kernel connects to.
    """
    if "%" in text:
        return None
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def is_public(address: Address) -> bool:
    """Return whether the address belongs to the internet, and to no special block of it."""
    if isinstance(address, IPv4Address):
        return not any(address in block for block in _SPECIAL_V4)
    if address in _NAT64:
        return is_public(embedded(address))
    return address in _UNICAST_V6 and not any(address in block for block in _SPECIAL_V6)


def is_risky(address: Address) -> bool:
    """Return whether an allowed network lets the address through only where the network is this address alone."""
    if isinstance(address, IPv6Address) and address in _NAT64:
        return is_risky(embedded(address))
    return any(address in block for block in _RISKY)


def is_metadata(address: Address) -> bool:
    """Return whether a metadata service of a cloud may be at the address."""
    if isinstance(address, IPv6Address) and address in _NAT64:
        return is_metadata(embedded(address))
    return any(address in block for block in _METADATA)


def embedded(address: IPv6Address) -> IPv4Address:
    """Return the IPv4 address in the last 32 bits, as NAT64 translates it."""
    return IPv4Address(int(address) & 0xFFFFFFFF)
