"""Decompresses a response in steps of bounded size, and refuses decompression bombs."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Iterator

import httpx

from agents.models.errors import ModelFailed

PIECE_BYTES = 256 * 1024
"""Most bytes that one step yields."""
MAX_RATIO = 100
"""Most decompressed bytes per compressed byte, over the whole body; event streams reach 20, gzip at most 1032."""
_FREE_BYTES = 8 * 1024 * 1024
"""Decompressed bytes up to which the ratio is not checked."""
_KNOWN = frozenset({"gzip", "x-gzip", "deflate"})
_GZIP_OR_ZLIB = 47
"""zlib's ``wbits`` that recognises both headers."""


class Inflated(httpx.AsyncByteStream, httpx.SyncByteStream):
    """The decompressed body of a response, gzip or zlib; on a loop, other tasks run between two steps.

    Reading it raises ModelFailed where the body is malformed, or a decompression bomb.
    """

    def __init__(self, answer: httpx.Response) -> None:
        self._answer = answer
        self._zlib = zlib.decompressobj(_GZIP_OR_ZLIB)
        self._taken = self._given = 0

    def _steps(self, data: bytes) -> Iterator[bytes]:
        """Yield the decompressed form of the next bytes, in pieces of at most ``PIECE_BYTES``."""
        self._taken += len(data)
        try:
            while data:
                piece = self._zlib.decompress(data, PIECE_BYTES)
                data = self._zlib.unconsumed_tail
                self._given += len(piece)
                if self._given > max(_FREE_BYTES, MAX_RATIO * self._taken):
                    raise ModelFailed("the provider's answer is a compressed bomb; it was not read further.")
                if piece:
                    yield piece
        except zlib.error as error:
            raise ModelFailed("the provider's answer is compressed and broken; it cannot be read.") from error

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for data in self._answer.aiter_raw():
            for piece in self._steps(data):
                yield piece
                await asyncio.sleep(0)

    def __iter__(self) -> Iterator[bytes]:
        for data in self._answer.iter_raw():
            yield from self._steps(data)

    async def aclose(self) -> None:
        await self._answer.aclose()

    def close(self) -> None:
        self._answer.close()


def inflated(answer: httpx.Response) -> Inflated | None:
    """Return the response's body decompressed; None where it is not compressed.

    Raises:
        ModelFailed: the body is compressed by another method than gzip and deflate.
    """
    encoding = answer.headers.get("content-encoding", "identity").strip().lower()
    if encoding in ("", "identity"):
        return None
    if encoding not in _KNOWN:
        raise ModelFailed(
            f"the provider's answer (HTTP {answer.status_code}) is compressed by {encoding[:20]!r}, which was not "
            "asked for; check `api_base:` and the proxies before it.",
            provider_status=answer.status_code,
        )
    return Inflated(answer)
