"""The interface of both ways to read an opened stream, and the fast one: batches of chunks, then the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from agents.models.failures import failure_of
from agents.models.streams.chunk import Chunk
from agents.models.streams.wire import Wire

if TYPE_CHECKING:
    import httpx

    from agents.models.call import ModelCall


class ChunkReader(Protocol):
    """Reads one stream; calls of ``read`` do not overlap."""

    @property
    def finished(self) -> bool:
        """Whether the model sent a finish reason."""

    @property
    def done(self) -> bool:
        """Whether only the end of the connection is left to read."""

    async def read(self) -> list[Chunk] | None:
        """Return what arrived at once (empty: only signs of life), or None at the end.

        Raises:
            ModelFailed, MODEL_REFUSED, MODEL_TIMEOUT: see ``agents.models.failures``.
        """

    async def aclose(self) -> None:
        """Close the connection; the rest of the answer is lost."""


class ByteReader:
    """The fast path: reads the response's bytes with a ``Wire``."""

    def __init__(self, response: httpx.Response, wire: Wire, stream_wrapper: Any, call: ModelCall) -> None:
        self._response = response
        self._wire = wire
        self._wrapper = stream_wrapper
        self._call = call
        self._over = False
        self._next = response.aiter_raw().__anext__  # decompressed by the guard

    @property
    def finished(self) -> bool:
        return self._wire.finished

    @property
    def done(self) -> bool:
        return self._wire.done

    async def read(self) -> list[Chunk] | None:
        self._wire.check()
        if self._over:
            return None
        try:
            data = await self._next()
        except StopAsyncIteration:
            self._over = True
            return self._wire.end(self._response.headers.get("content-type", ""))
        except Exception as error:
            self._over = True
            if not self._wire.finished:  # else the answer was complete, as for LiteLLM
                raise failure_of(error, self._call) from error
            return []
        return self._wire.feed(data)

    async def aclose(self) -> None:
        await self._response.aclose()
        await self._wrapper.aclose()
