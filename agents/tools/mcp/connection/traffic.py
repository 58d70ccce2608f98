"""How much a server may send: each message, all of them between two requests of ours, and its unanswered requests.

A server that sends more loses its connection, and nothing else is affected. How many values a message has, and how
deeply they are nested, is found out before it is parsed: as Python objects they take up to 100 times its bytes, and the
loop reads them at once.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from itertools import accumulate
from types import TracebackType
from typing import Any, Self

import anyio
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCError, JSONRPCRequest, JSONRPCResponse

from agents.tools.mcp.catalogue.lists import mend

MAX_VOLUME = 16
"""Longest messages' worth of bytes that a server may send between two requests of ours."""
MAX_MESSAGES = 50_000
"""Messages and lines that it may send between two requests of ours."""
MAX_OPEN = 64
"""Requests of a server that may wait for our answer; each holds memory until the server reads it."""
MAX_VALUES = 100_000
"""Values of one message; each takes about 100 bytes of memory, and a short one two bytes of the message. The loop reads
so many in 50 ms."""
MAX_LEVELS = 200
"""Levels of lists and objects that the parser of the SDK's messages reads."""
MAX_LINES = 10_000
"""Lines of an event with many values."""
_SPARE_BYTES = 1024 * 1024
"""How much longer an event may be with its comments; the SDK bounds what is no comment."""
_OTHER_LINE = re.compile(rb"^(?!data:)[^\n]*\n?", re.MULTILINE)
_FIELD = re.compile(rb"^data:", re.MULTILINE)
_NO_BRACKET = bytes(set(range(256)) - set(b"[{]}"))
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


class TooMuch(Exception):
    """The server sent more than it may; the text is a part of a sentence."""


class Traffic:
    """What one connection carried, and why it ended."""

    def __init__(self, max_bytes: int, on_end: Callable[[], None] = lambda: None) -> None:
        self.max_bytes = max_bytes
        self.problem: str | None = None
        """Why the connection was ended, as a part of a sentence; None where the server ended it."""
        self.has_ended = False
        self.protocol = ""
        """The protocol's version; empty before it is agreed upon."""
        self._on_end = on_end
        self._asked_s: float | None = None
        """When it was asked first of what no message of it came after; None where there is none."""
        self._bytes = self._pieces = self._open = 0

    @property
    def silent_s(self) -> float:
        """Seconds for which the server has sent nothing, although it was asked something."""
        return 0.0 if self._asked_s is None else time.monotonic() - self._asked_s

    def end(self, problem: str | None = None) -> None:
        """Note that nothing more is read; the first problem is kept."""
        self.problem = self.problem or problem
        if not self.has_ended:
            self.has_ended = True
            self._on_end()

    def arrived(self, size: int, pieces: int = 1) -> None:
        """Count what was read.

        Raises:
            TooMuch: it is more than a server may send without being asked.
        """
        self._bytes += size
        self._pieces += pieces
        if self._bytes > MAX_VOLUME * self.max_bytes:
            raise TooMuch(f"it sent more than {MAX_VOLUME * self.max_bytes:,} bytes without being asked")
        if self._pieces > MAX_MESSAGES:
            raise TooMuch(f"it sent more than {MAX_MESSAGES:,} messages without being asked")

    def took(self, item: SessionMessage | Exception) -> None:
        """Count a message of the server.

        Raises:
            TooMuch: too many of its requests wait for an answer.
        """
        self._asked_s = None
        if isinstance(item, SessionMessage) and isinstance(item.message, JSONRPCRequest):
            self._open += 1
            if self._open > MAX_OPEN:
                raise TooMuch(f"it sent more than {MAX_OPEN} requests without reading the answers")

    def sent(self, item: SessionMessage) -> None:
        """Count a message to the server, once it was handed over."""
        if isinstance(item.message, JSONRPCResponse | JSONRPCError):
            self._open -= 1

    def asks(self, item: SessionMessage) -> None:
        """Give the server its whole allowance again, where the message is a request of ours."""
        if isinstance(item.message, JSONRPCRequest):
            self._bytes = self._pieces = 0
            self._asked_s = time.monotonic() if self._asked_s is None else self._asked_s


class _Stream:
    """What both directions have in common."""

    def __init__(self, inner: Any, traffic: Traffic) -> None:
        self._inner, self._traffic = inner, traffic

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return bool(await self._inner.__aexit__(kind, error, trace))


class Inbound(_Stream):
    """A transport's messages, as far as the server may send them; then the end of the stream."""

    @property
    def last_context(self) -> Any:
        """The context that the SDK's own stream hands over with a message."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        try:
            item: SessionMessage | Exception = await self._inner.receive()
            self._traffic.took(item)
            if isinstance(item, SessionMessage) and isinstance(item.message, JSONRPCResponse):
                mend(item.message.result, self._traffic.protocol)
        except TooMuch as error:
            self._traffic.end(str(error))
            raise anyio.EndOfStream from error
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            self._traffic.end()
            raise
        return item

    def __aiter__(self) -> Inbound:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


class Outbound(_Stream):
    """A transport's way to the server, counted."""

    async def send(self, item: SessionMessage, /) -> None:
        self._traffic.asks(item)
        await self._inner.send(item)
        self._traffic.sent(item)


def watched(read: Any, write: Any, traffic: Traffic) -> tuple[Inbound, Outbound]:
    """Return a transport's streams, counted: one with ``receive``, one with ``send``."""
    return Inbound(read, traffic), Outbound(write, traffic)


# --- values -------------------------------------------------------------------------------------------


def require_few_values(data: bytes) -> None:
    """Return if a message has few values.

    Raises:
        TooMuch: it has too many.
    """
    if _marks(data) <= MAX_VALUES:
        return
    plain = _without_escapes(data)
    has_many_strings = plain.count(b'"') > 2 * MAX_VALUES
    if has_many_strings or sum(_marks(part) for part in plain.split(b'"')[::2]) > MAX_VALUES:
        raise TooMuch(f"it sent a message of more than {MAX_VALUES:,} values")


def require_flat(data: bytes) -> None:
    """Return if text that could not be parsed is not nested too deeply; it has few values.

    Raises:
        TooMuch: it is, so that the parser did not read it.
    """
    if data.count(b"[") + data.count(b"{") <= MAX_LEVELS:
        return
    outside = b"".join(_without_escapes(data).split(b'"')[::2])
    brackets = outside.translate(None, _NO_BRACKET)[: 2 * MAX_VALUES]
    if max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > MAX_LEVELS:
        raise TooMuch(f"it sent a message that is nested more than {MAX_LEVELS} levels deep")


class BodyValues:
    """Keeps a body as it arrives, and looks at its message at the end."""

    def __init__(self) -> None:
        self._body = bytearray()

    def arrived(self, piece: bytes) -> None:
        """Take a piece, before it is handed on."""
        self._body += piece

    def ended(self) -> None:
        """Look at the whole message.

        Raises:
            TooMuch: it has too many values.
        """
        require_few_values(bytes(self._body))


class EventValues:
    """Keeps each event of a stream as it arrives, and looks at it at its end; lines are those of the SDK's parser."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes + _SPARE_BYTES
        self._event = bytearray()
        self._has_return = False

    def arrived(self, piece: bytes) -> None:
        """Take a piece, before it is handed on.

        Raises:
            TooMuch: an event that ends with it has too many values, or one that does not end is too long.
        """
        text = b"\r" + piece if self._has_return else piece
        self._has_return = text.endswith(b"\r")
        text = text.removesuffix(b"\r").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        first = len(self._event) - 1 if self._event.endswith(b"\n") else len(self._event)
        self._event += text
        while (end := self._event.find(b"\n\n", max(0, first))) >= 0:
            _require_few_in_event(bytes(self._event[:end]))
            del self._event[: end + 1]  # its second line end may be the first of another blank line
            first = 0
        if len(self._event) > self._max_bytes:
            raise TooMuch(f"it sent an event of more than {self._max_bytes:,} bytes")

    def ended(self) -> None:
        """Look at an event that the stream ends with.

        Raises:
            TooMuch: it has too many values.
        """
        _require_few_in_event(bytes(self._event))


def _require_few_in_event(event: bytes) -> None:
    if _marks(event) <= MAX_VALUES:
        return
    if event.count(b"\n") > MAX_LINES:
        raise TooMuch(f"it sent an event of more than {MAX_LINES:,} lines")
    require_few_values(_FIELD.sub(b"", _OTHER_LINE.sub(b"", event)))


def _without_escapes(data: bytes) -> bytes:
    return data.replace(b"\\\\", b"").replace(b'\\"', b"")


def _marks(data: bytes) -> int:
    return data.count(b",") + data.count(b"[") + data.count(b"{")
