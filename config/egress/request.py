"""A request that is sent to another server, and what a redirect makes of it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from config.egress.errors import RedirectRefused, RequestRefused
from config.egress.target import Target

MAX_BODY_BYTES = 1024 * 1024
"""Longest body of a request."""
MAX_HEADERS = 40
MAX_HEADER_CHARS = 8 * 1024
"""Characters of the longest header."""
REDIRECTS = frozenset({301, 302, 303, 307, 308})

_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_VALUE = re.compile(r"[\x20-\x7e\t]*")
_OURS = frozenset(
    """
    host content-length transfer-encoding connection keep-alive upgrade te trailer expect accept-encoding
    proxy-authorization proxy-connection proxy-authenticate
    """.split()
)
"""Headers that decide where a request goes and where it ends, or that a proxy reads."""
_KEPT_ACROSS = frozenset({"accept", "accept-language", "user-agent"})
"""Headers that go to another origin too; any other may hold a credential."""
_OF_BODY = ("content-type", "content-encoding", "content-language", "idempotency-key")

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Outgoing:
    """One request."""

    method: str
    target: Target
    headers: Headers = ()
    body: bytes = b""
    continues_trace: bool = False
    """Whether the server, which the operator named, gets the trace context."""

    @property
    def is_read(self) -> bool:
        """Whether it asks for no change."""
        return self.method in ("GET", "HEAD")

    def redirected(self, status: int, location: str) -> Outgoing:
        """Return the request to the address that a redirect names, by RFC 9110, section 15.4.

        A redirect to another origin gets no credentials, and nothing but ``GET`` and ``HEAD``.

        Raises:
            UrlRefused: the address is malformed.
            RedirectRefused: it would take the request from HTTPS to HTTP, or its body to another origin.
        """
        target = self.target.joined(location)
        if self.target.scheme == "https" and target.scheme == "http":
            raise RedirectRefused(f"{self.target.host} redirects from https to http ({target}), which is not followed.")
        becomes_get = (status == 303 and self.method != "HEAD") or (status in (301, 302) and self.method == "POST")
        is_same = target.origin == self.target.origin
        if not (is_same or becomes_get or self.is_read):
            raise RedirectRefused(
                f"{self.target.host} redirects to {target}, which is not followed with {self.method}: the request "
                "would go to another server. If that one is right, ask for it directly."
            )
        continues = self.continues_trace and is_same
        headers = (
            self.headers if is_same else tuple(header for header in self.headers if header[0].lower() in _KEPT_ACROSS)
        )
        if not becomes_get:
            return replace(self, target=target, headers=headers, continues_trace=continues)
        headers = tuple(pair for pair in headers if pair[0].lower() not in _OF_BODY)
        return replace(self, target=target, headers=headers, method="GET", body=b"", continues_trace=continues)


def checked_headers(headers: Iterable[tuple[str, str]]) -> Headers:
    """Return the headers that a caller chose.

    Raises:
        RequestRefused: one is malformed, too long, or Callboard's own to set.
    """
    pairs = tuple(headers)
    if len(pairs) > MAX_HEADERS:
        raise RequestRefused(f"the request has {len(pairs):,} headers and the limit is {MAX_HEADERS}.")
    for name, value in pairs:
        if not _NAME.fullmatch(name):
            raise RequestRefused(f"{name[:40]!r} is not a header's name; names have letters, digits and '-'.")
        if name.lower() in _OURS:
            raise RequestRefused(f"the header {name} is set by Callboard itself; leave it out.")
        if len(value) > MAX_HEADER_CHARS or not _VALUE.fullmatch(value):
            raise RequestRefused(
                f"the value of the header {name} is too long, or has a line break or a character that is not ASCII."
            )
    if len({name.lower() for name, _ in pairs}) < len(pairs):
        raise RequestRefused("the request has a header twice; join its values with a comma.")
    return pairs


def checked_body(body: bytes) -> bytes:
    """Return the body.

    Raises:
        RequestRefused: it is too long.
    """
    if len(body) > MAX_BODY_BYTES:
        raise RequestRefused(f"the body has {len(body):,} bytes and the limit is {MAX_BODY_BYTES:,}.")
    return body
