"""A scripted model whose script is in another process: a server on this machine that streams OpenAI's format.

A test's worker calls it without LiteLLM, whose import takes seconds in each process.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import orjson

from agents.models.errors import ModelFailed, ModelRefused
from agents.models.streams.chunk import Chunk
from agents.models.streams.openai import OpenAIWire
from config.errors import CallboardError

if TYPE_CHECKING:
    from agents.models.call import ModelCall

_LOCAL = ("127.0.0.1", "localhost", "::1")


class ServedReader:
    """Reads one answer of the server at the call's ``api_base``."""

    def __init__(self, call: ModelCall) -> None:
        self._call = call
        self._wire = OpenAIWire()
        self._incoming: asyncio.StreamReader | None = None
        self._outgoing: asyncio.StreamWriter | None = None

    @property
    def finished(self) -> bool:
        return self._wire.finished

    @property
    def done(self) -> bool:
        return self._wire.done

    async def read(self) -> list[Chunk] | None:
        try:
            incoming = self._incoming or await self._ask()
            size = int(await incoming.readline() or b"0", 16)
            data = await incoming.readexactly(size)
            await incoming.readline()
        except (OSError, EOFError, ValueError) as error:
            if self._wire.finished:
                return None
            raise ModelFailed(f"the connection to '{self._call.model}' broke: {type(error).__name__}.") from error
        if size:
            return self._wire.feed(data)
        self._wire.end()
        return None

    async def aclose(self) -> None:
        if self._outgoing is not None:
            self._outgoing.close()

    async def _ask(self) -> asyncio.StreamReader:
        place = urlsplit(self._call.api_base or "")
        if place.hostname not in _LOCAL:
            raise ModelRefused(f"'{self._call.model}' has its script on this machine alone; address it as 127.0.0.1.")
        incoming, self._outgoing = await asyncio.open_connection(place.hostname, place.port)
        body = _body_of(self._call)
        head = f"POST {place.path}/chat/completions HTTP/1.1\r\nHost: scripted\r\nContent-Length: {len(body)}\r\n\r\n"
        self._outgoing.write(head.encode() + body)
        status = int((await incoming.readuntil(b"\r\n\r\n")).split(b" ", 2)[1])
        if status != 200:
            raise _failure(status, self._call.model)
        self._incoming = incoming
        return incoming


def _body_of(call: ModelCall) -> bytes:
    body = {
        "model": call.model.partition("/")[2],
        "messages": list(call.messages),
        "stream": True,
        "tools": list(call.tools) if call.tools else None,
        "tool_choice": call.tool_choice if call.tools else None,
        "response_format": call.response_format,
    }
    return orjson.dumps({name: value for name, value in body.items() if value is not None} | dict(call.params))


def _failure(status: int, model: str) -> CallboardError:
    text = f"the server of '{model}' answered with HTTP {status}."
    kind = ModelFailed if status in (408, 429) or status >= 500 else ModelRefused
    return kind(text, model=model, provider_status=status)
