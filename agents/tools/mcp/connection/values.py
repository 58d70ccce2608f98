"""How many values a message of a server has, and how deeply they are nested, found out before it is parsed.

A short message may have many values: as Python objects they take up to 100 times its bytes, and the loop reads them at
once.
"""

from __future__ import annotations

import re
from itertools import accumulate

from agents.tools.mcp.connection.traffic import TooMuch

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
