"""The lines of a client: those that are no messages are answered, where the SDK drops them."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import anyio
from mcp.shared.message import SessionMessage
from mcp.types import PARSE_ERROR, ErrorData, JSONRPCError

from config.tracing import new_trace_id

SENTENCE = "The line is no message of JSON-RPC 2.0: one JSON object in UTF-8 on one line, with `jsonrpc` and `method`."


class AnsweredLines:
    """The stream of a client's messages; what could not be read is answered by an error without an id."""

    def __init__(self, incoming: Any, outgoing: Any) -> None:
        self._incoming = incoming
        self._outgoing = outgoing

    @property
    def last_context(self) -> Any:
        """The context in which the last message was read; the SDK looks for it."""
        return self._incoming.last_context

    async def receive(self) -> SessionMessage:
        """Return the next message."""
        while isinstance(found := await self._incoming.receive(), Exception):
            error = ErrorData(code=PARSE_ERROR, message=SENTENCE, data={"trace_id": new_trace_id()})
            await self._outgoing.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=None, error=error)))
        message: SessionMessage = found
        return message

    async def aclose(self) -> None:
        await self._incoming.aclose()

    def __aiter__(self) -> AnsweredLines:
        return self

    async def __anext__(self) -> SessionMessage:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> AnsweredLines:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
