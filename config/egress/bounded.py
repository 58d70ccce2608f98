"""Answers of the servers that operators name, read on a plain thread: bounded in bytes and in time.

They may be private, and behind a proxy that the proxy variables name; the metadata service of a cloud is not asked
(config/egress/operators.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import httpx2

from config.egress.errors import HostNotAllowed, UrlRefused
from config.egress.exchange import trusted
from config.egress.informational import bound_informational
from config.egress.operators import require_operators_url_here
from config.egress.policy import Allowed

_PLAIN = {"Accept-Encoding": "identity"}
"""Asks for answers without compression, whose size is the one that counts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bounds:
    """How much an answer may have, and how long it may take."""

    max_bytes: int
    timeout_s: float
    """Seconds to connect, and until the next bytes."""
    total_s: float
    """Seconds for all of the body."""
    allowed: Sequence[Allowed]
    """Where the deployment's tools may send requests: what is named there may be asked, whatever its address is."""

    def client_options(self) -> dict[str, Any]:
        """Return the arguments of an httpx2 client, also of another library's, whose requests are bounded."""
        return {
            "timeout": self.timeout_s,
            "verify": trusted(),
            "headers": _PLAIN,
            "event_hooks": {"request": [partial(guard, self.allowed)], "response": [self._bound]},
        }

    def read(self, url: str) -> bytes:
        """Return the body of a successful answer; redirects are not followed.

        Raises:
            OSError: there was none.
        """
        try:
            with httpx2.Client(**self.client_options()) as client:
                return client.get(url).raise_for_status().content
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise OSError(f"{type(error).__name__}: {error}") from error

    def _bound(self, answer: httpx2.Response) -> None:
        """Limit an answer whose body is not read yet."""
        if answer.headers.get("Content-Encoding", "identity") != "identity":
            raise httpx2.DecodingError("the answer is compressed, which was not asked for")
        answer.stream = _BoundedStream(cast(httpx2.SyncByteStream, answer.stream), self)


class _BoundedStream(httpx2.SyncByteStream):
    """The body of an answer, which ends with an error beyond the bounds."""

    def __init__(self, stream: httpx2.SyncByteStream, bounds: Bounds) -> None:
        self._stream = stream
        self._bounds = bounds
        self._until_s = time.monotonic() + bounds.total_s

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        for piece in self._stream:
            size += len(piece)
            if size > self._bounds.max_bytes:
                raise httpx2.ReadError(f"the answer has more than {self._bounds.max_bytes} bytes")
            if time.monotonic() > self._until_s:
                raise httpx2.ReadTimeout(f"the answer has not ended after {self._bounds.total_s:g} s")
            yield piece

    def close(self) -> None:
        self._stream.close()


def guard(allowed: Sequence[Allowed], request: httpx2.Request) -> None:
    """Refuse a request to a cloud's metadata service, which a provider's document could name as one of its addresses.

    Raises:
        httpx2.ConnectError: it leads there, or its address is malformed.
    """
    bound_informational()
    try:
        require_operators_url_here(str(request.url), allowed)
    except (HostNotAllowed, UrlRefused) as error:
        raise httpx2.ConnectError(str(error)) from error
