"""The two ways to read an opened stream look alike: batches of chunks, then the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from agents.models.chunk import Chunk
from agents.models.failures import failure_of
from agents.models.wire import Wire

if TYPE_CHECKING:
    import httpx

    from agents.models.call import ModelCall


class Reader(Protocol):
    """Reads one stream; ``read`` is not called again before it returned."""

    @property
    def finished(self) -> bool:
        """Whether the model said that it is through."""

    @property
    def done(self) -> bool:
        """Whether only the end of the connection is left to read."""

    async def read(self) -> list[Chunk] | None:
        """Return what arrived at once (empty: only signs of life), or None at the end.

        Raises:
            ModelFailed, ModelRefused, ModelTimeout: see ``agents.models.failures``.
        """

    async def aclose(self) -> None:
        """Let go of the connection; what is still being sent is lost."""


class ByteReader:
    """The fast path: the response's own bytes through our own wire format."""

    def __init__(self, response: httpx.Response, wire: Wire, stream_wrapper: Any, call: ModelCall) -> None:
        self._response = response
        self._wire = wire
        self._wrapper = stream_wrapper
        self._call = call
        self._over = False
        plain = response.headers.get("content-encoding", "identity") in ("", "identity")
        self._next = (response.aiter_raw() if plain else response.aiter_bytes()).__anext__

    @property
    def finished(self) -> bool:
        return self._wire.finished

    @property
    def done(self) -> bool:
        return self._wire.done

    async def read(self) -> list[Chunk] | None:
        if self._over:
            self._wire.check()
            return None
        self._wire.check()
        try:
            data = await self._next()
        except StopAsyncIteration:
            self._over = True
            return self._wire.end(self._response.headers.get("content-type", ""))
        except Exception as error:
            return self._broken(error)
        return self._wire.feed(data)

    def _broken(self, error: Exception) -> list[Chunk]:
        """Return nothing more when the answer was complete, as LiteLLM does; else raise."""
        self._over = True
        if self._wire.finished:
            return []
        raise failure_of(error, self._call) from error

    async def aclose(self) -> None:
        await self._response.aclose()
        await self._wrapper.aclose()
