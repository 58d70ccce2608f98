"""Limits of requests to the identity provider: where they go, and the size and time of what it sends back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import cast

import httpx2

from config.egress.errors import HostNotAllowed, UrlRefused
from config.egress.informational import bound_informational
from config.egress.operators import require_operators_url_here
from config.egress.policy import allowed_in
from config.settings import settings

MAX_BYTES = 1024 * 1024
TOTAL_S = 8.0
"""Seconds that the body of an answer may take."""
PLAIN = {"Accept-Encoding": "identity"}
"""Asks for answers without compression, whose size is the one that counts."""


class BoundedStream(httpx2.SyncByteStream):
    """The body of an answer, which ends with an error beyond the limits."""

    def __init__(self, stream: httpx2.SyncByteStream) -> None:
        self._stream = stream
        self._until_s = time.monotonic() + TOTAL_S

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        for piece in self._stream:
            size += len(piece)
            if size > MAX_BYTES:
                raise httpx2.ReadError(f"the answer has more than {MAX_BYTES} bytes")
            if time.monotonic() > self._until_s:
                raise httpx2.ReadTimeout(f"the answer has not ended after {TOTAL_S:g} s")
            yield piece

    def close(self) -> None:
        self._stream.close()


def guard(request: httpx2.Request) -> None:
    """Refuse a request to a cloud's metadata service, which a provider's document could name as one of its addresses.

    Raises:
        httpx2.ConnectError: it leads there, or its address is malformed.
    """
    bound_informational()
    try:
        require_operators_url_here(str(request.url), allowed_in(settings().http_allowed_hosts))
    except (HostNotAllowed, UrlRefused) as error:
        raise httpx2.ConnectError(str(error)) from error


def bound(answer: httpx2.Response) -> None:
    """Limit an answer whose body is not read yet."""
    if answer.headers.get("Content-Encoding", "identity") != "identity":
        raise httpx2.DecodingError("the answer is compressed, which was not asked for")
    answer.stream = BoundedStream(cast(httpx2.SyncByteStream, answer.stream))
