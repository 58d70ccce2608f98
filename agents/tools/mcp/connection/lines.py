"""The messages of a server on stdio, one a line: read up to a limit, and written as fast as the server reads."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Self, cast

import anyio
from mcp.shared.message import SessionMessage
from mcp.types import ErrorData, JSONRPCError, JSONRPCMessage, jsonrpc_message_adapter

from agents.tools.mcp.connection.http import CUT_OFF
from agents.tools.mcp.connection.traffic import TooMuch, Traffic, require_few_values, require_flat

log = logging.getLogger(__name__)

_TURN = 100
"""Lines that are read before other tasks get their turn."""
MAX_DIGITS = 19
"""Digits of an id in an answer that the SDK does not read."""
_BOM = b"\xef\xbb\xbf"


class LineReader:
    """The messages of a server; lines that are none are left out.

    In place of an answer that cannot be read there is an error, which ends the call: nothing else would come.
    """

    def __init__(self, reader: asyncio.StreamReader, traffic: Traffic, name: str) -> None:
        self._reader, self._traffic, self._name = reader, traffic, name
        self._waiting: deque[JSONRPCMessage] = deque()
        self._lines = self._garbage = 0

    async def receive(self) -> SessionMessage:
        """Return the next message.

        Raises:
            anyio.EndOfStream: the server closed its standard output.
            TooMuch: a line is too long, or there are too many.
        """
        while not self._waiting:
            line = await self._next()
            self._waiting += self._messages(line.removeprefix(_BOM).lstrip())
        return SessionMessage(self._waiting.popleft())

    async def _next(self) -> bytes:
        self._lines += 1
        if self._lines % _TURN == 0:
            await asyncio.sleep(0)
        try:
            line = await self._reader.readuntil(b"\n")
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise anyio.EndOfStream from error
        except asyncio.LimitOverrunError as error:
            raise TooMuch(f"it sent a message of more than {self._traffic.max_bytes:,} bytes") from error
        self._traffic.arrived(len(line))
        return line

    def _messages(self, line: bytes) -> list[JSONRPCMessage]:
        is_batch = line.startswith(b"[") and line[1:].lstrip().startswith(b"{")
        if is_batch or line.startswith(b"{"):
            require_few_values(line)
            with suppress(ValueError):
                return [jsonrpc_message_adapter.validate_json(line, by_name=False)]
            require_flat(line)
            if unread := list(_unread_answers(line)):
                return unread
        if line and not self._garbage:
            log.warning("the MCP server %s writes lines to its standard output that are no messages", self._name)
        self._garbage += 1
        return []

    async def aclose(self) -> None:
        """Leave the pipe open: the process's owner closes it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class LineWriter(asyncio.BaseProtocol):
    """The way to a server: a message a line, as fast as it reads them."""

    def __init__(self) -> None:
        self._pipe: asyncio.WriteTransport | None = None
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._is_closed = False

    async def send(self, item: SessionMessage, /) -> None:
        """Return when the message was handed to the system.

        Raises:
            anyio.BrokenResourceError: the server reads no more.
        """
        data = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode()
        self._require_open().write(data + b"\n")
        await self._may_write.wait()
        self._require_open()

    def _require_open(self) -> asyncio.WriteTransport:
        if self._pipe is None or self._is_closed:
            raise anyio.BrokenResourceError
        return self._pipe

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._pipe = cast(asyncio.WriteTransport, transport)  # uvloop's are not derived from it

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closed = True
        self._may_write.set()

    def close(self) -> None:
        """Close the server's standard input, also where it does not read what is under way."""
        self._is_closed = True
        self._may_write.set()
        if self._pipe is not None:
            self._pipe.close() if self._pipe.get_write_buffer_size() == 0 else self._pipe.abort()

    async def aclose(self) -> None:
        """Leave the pipe open: the process's owner closes it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _unread_answers(line: bytes) -> Iterator[JSONRPCMessage]:
    """Yield an error for each answer in a line that the SDK does not read; it has few values, and they are flat.

    Python's parser takes what the SDK's does not: half of a surrogate pair, long numbers, and members that are missing
    or have another type. Bytes that are not UTF-8 are replaced.
    """
    try:
        document = json.loads(line.decode(errors="replace"), parse_int=_short)
    except ValueError:
        return
    for item in document if isinstance(document, list) else [document]:
        number = item.get("id") if isinstance(item, dict) and "method" not in item else None
        if type(number) is int or (isinstance(number, str) and number.isascii()):  # others are no ids of ours
            problem = "it answered with a list of messages" if item is not document else "its answer is no message"
            yield JSONRPCError(jsonrpc="2.0", id=number, error=ErrorData(code=CUT_OFF, message=problem))


def _short(digits: str) -> Any:
    """Return a number that may be an id; the time of reading others grows faster than their length."""
    return int(digits) if len(digits) <= MAX_DIGITS else None
