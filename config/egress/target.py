"""Reads a URL strictly: one spelling of each host, so that what is checked is what is asked."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from urllib.parse import quote, urljoin

from config.egress.addresses import Address, address_in
from config.egress.errors import UrlRefused

MAX_URL = 4096
"""Characters of the longest URL."""
PORTS = {"http": 80, "https": 443}

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?]*)(/[^?]*)?(\?.*)?", re.DOTALL)
"""Without the fragment, which is not sent."""
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]%]+)(?::([0-9]{1,5}))?")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_UNSAFE = re.compile(r"[\x00-\x20\x7f-\xa0\u2028\u2029\ud800-\udfff\\]")
_KEPT = "/%:@!$&'()*+,;=~-._?"
"""Characters of a path and a query that are not encoded once more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """A URL in the one form that is requested."""

    scheme: str
    """``http`` or ``https``."""
    host: str
    """A lower-case ASCII name, or an address without brackets."""
    port: int
    path: str
    """The path with its query, as it is sent."""
    address: Address | None = None
    """The host as an address, where it is one."""

    @property
    def authority(self) -> str:
        """The value of the ``Host`` header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"

    def joined(self, location: str) -> Target:
        """Return where a ``Location`` header leads from here.

        Raises:
            UrlRefused: it is no URL that may be asked.
        """
        _refuse_unsafe(location)
        try:
            return parse_target(urljoin(str(self), location))
        except ValueError as error:
            raise UrlRefused("the redirect's address is malformed.") from error


def parse_target(url: str) -> Target:
    """Return the parts of an absolute URL of HTTP or HTTPS.

    Raises:
        UrlRefused: it is malformed, or in a form that programs read in different ways.
    """
    _refuse_unsafe(url)
    match = _URL.fullmatch(url.partition("#")[0])
    if match is None:
        raise UrlRefused("the URL has no scheme and host; write one like https://example.org/path.")
    scheme, authority, path = match[1].lower(), match[2], (match[3] or "/") + (match[4] or "")
    if scheme not in PORTS:
        raise UrlRefused(f"the URL's scheme is '{scheme[:20]}' and only http and https are possible.")
    if "@" in authority:
        raise UrlRefused("the URL has a user name or password before the host; send credentials in a header.")
    parts = _AUTHORITY.fullmatch(authority)
    if parts is None:
        raise UrlRefused("the URL's host is malformed; write a name like example.org, without escapes and spaces.")
    port = int(parts[2]) if parts[2] is not None else PORTS[scheme]
    if not 1 <= port <= 65535:
        raise UrlRefused(f"the URL's port is {port}; ports are 1 to 65535.")
    target = _with_host(Target(scheme=scheme, host="", port=port, path=quote(path, safe=_KEPT)), parts[1])
    if len(target.path) > 2 * MAX_URL:
        raise UrlRefused("the URL's path is too long once it is encoded; shorten it.")
    return target


def _refuse_unsafe(url: str) -> None:
    if len(url) > MAX_URL:
        raise UrlRefused(f"the URL has {len(url):,} characters and the limit is {MAX_URL:,}.")
    if _UNSAFE.search(url):
        raise UrlRefused("the URL has a space, a line break, a backslash or a control character; encode it.")


def _with_host(target: Target, text: str) -> Target:
    if text.startswith("["):
        address = address_in(text[1:-1])
        if address is None:
            raise UrlRefused(f"'{text[:60]}' is not an IPv6 address.")
        return replace(target, host=str(address), address=address)
    name = host_name(text)
    address = address_in(name)
    if address is None and _NUMBER.fullmatch(name.rsplit(".", 1)[-1]):
        raise UrlRefused(f"'{text[:60]}' is not a name, and not an IPv4 address of four decimal numbers.")
    return replace(target, host=name, address=address)


def host_name(text: str) -> str:
    """Return a host's name in lower-case ASCII, international names encoded as IDNA 2008.

    Raises:
        UrlRefused: it is none.
    """
    name = (text if text.isascii() else _encoded(text)).lower()
    if name.endswith("."):
        raise UrlRefused("the URL's host ends with a dot; write it without.")
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in name.split(".")):
        raise UrlRefused(f"'{text[:60]}' is not a host's name.")
    return name


def _encoded(text: str) -> str:
    import httpx2  # takes 60 ms

    if len(text) > 253:
        raise UrlRefused(f"'{text[:60]}' is not a host's name: it is too long.")
    try:
        return httpx2.URL(scheme="https", host=text).raw_host.decode("ascii")
    except (httpx2.InvalidURL, UnicodeError) as error:
        raise UrlRefused(f"'{text[:60]}' is not a host's name: it has characters that names may not have.") from error
